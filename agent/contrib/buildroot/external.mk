include $(sort $(wildcard $(BR2_EXTERNAL_FLEET_PATH)/package/*/*.mk))

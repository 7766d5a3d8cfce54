################################################################################
#
# fleet-agent
#
################################################################################

FLEET_AGENT_VERSION = local
FLEET_AGENT_SITE = $(BR2_EXTERNAL_FLEET_PATH)/../..
FLEET_AGENT_SITE_METHOD = local
FLEET_AGENT_LICENSE = MIT

define FLEET_AGENT_BUILD_CMDS
	$(TARGET_MAKE_ENV) $(MAKE) $(TARGET_CONFIGURE_OPTS) -C $(@D) \
		TARGET=linux-$(call qstrip,$(BR2_PACKAGE_FLEET_AGENT_ARCH)) fleet-agent
endef

define FLEET_AGENT_INSTALL_TARGET_CMDS
	$(INSTALL) -D -m 0755 $(@D)/fleet-agent $(TARGET_DIR)/usr/bin/fleet-agent
endef

$(eval $(generic-package))

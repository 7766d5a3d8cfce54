#!/bin/busybox sh
# shellcheck shell=dash
# First program of the emulated machine: load the drivers, find the disk, go on with the system on it.
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
while read -r module; do
	insmod "/modules/$module" || echo "fleet-vm: cannot load $module"
done </modules/order
until [ -b /dev/vda ]; do sleep 0.1; done
mount -t ext4 /dev/vda /root || echo "fleet-vm: cannot mount the disk"
for place in proc sys dev; do
	mount --move "/$place" "/root/$place"
done
exec switch_root /root /sbin/init

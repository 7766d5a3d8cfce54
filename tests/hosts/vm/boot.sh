#!/bin/sh
# What an init system would do, as far as a host for tests needs it; busybox init runs it once.
set -e
PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /dev/pts /dev/shm
busybox mount -t devpts devpts /dev/pts
for place in /dev/shm /tmp /run; do
	busybox mount -t tmpfs -o mode=1777 tmpfs "$place"
done
mkdir -m 755 /run/sshd
chown -R fleet:fleet /home/fleet
hostname fleet-vm
busybox ip link set lo up
busybox ip address add 10.0.2.15/24 dev eth0 # the address qemu's user network forwards to
busybox ip link set eth0 up
exec /usr/sbin/sshd -D -e

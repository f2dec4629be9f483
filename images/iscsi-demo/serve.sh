#!/bin/sh
# Serves /srv/disk.img as LUN 2 of the target in manifests/examples, until SIGTERM or SIGINT.
set -eu
target=iqn.2017-01.io.kubevirt:sn.42
tgtd --foreground --iscsi portal=0.0.0.0:3260 &
daemon=$!
trap 'kill $daemon' TERM INT
until tgtadm --lld iscsi --op show --mode sys >/dev/null 2>&1; do
  kill -0 $daemon
  sleep 0.1
done
tgtadm --lld iscsi --op new --mode target --tid 1 --targetname $target
tgtadm --lld iscsi --op new --mode logicalunit --tid 1 --lun 2 --backing-store /srv/disk.img
tgtadm --lld iscsi --op bind --mode target --tid 1 --initiator-address ALL
touch /run/serving
echo "serving $target LUN 2"
wait $daemon

import { chown, copyFile, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { launcherResources } from '../../api/launcher-resources.ts'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { compilePreset } from '../../presets/compile.ts'
import { startLauncher } from './launcher.ts'
import { linuxDisk } from './linux-disk.ts'
import { linuxVm } from './linux-vm.ts'
import { makeMemoryCgroup } from './memory-cgroup.ts'
import { redirected, startRedirectedDevice } from './redirected-device.ts'
import { uid as launcherUid } from './rootfs.ts'

/** Two boots of 20 s each, and many times that on a busy machine. */
const bootMs = 1_500_000

/**
 * Runs in the guest at its first boot. At the second, the watchdog expires, because it is fed once a minute, and its
 * interrupt makes Linux panic.
 */
const script = `#!/bin/sh
exec >/dev/console
echo "rng: $(cat /sys/class/misc/hw_random/rng_current), $(head -c 16 /dev/hwrng | wc -c) bytes"
echo "screen: $(ls /sys/bus/virtio/drivers/virtio_gpu/virtio*/../drm | grep '^card') of virtio_gpu"
echo "watchdog: $(cat /sys/class/watchdog/watchdog0/identity)"
echo "tpm: $(cat /sys/class/tpm/tpm0/pcr-sha256/0)"
echo "panic: $(ls /sys/bus/pci/drivers | grep pvpanic)"
for second in $(seq 60); do grep -qs 1209 /sys/bus/usb/devices/*/idVendor && break; sleep 1; done
cd "$(dirname "$(grep -ls 1209 /sys/bus/usb/devices/*/idVendor)")"
echo "usb: $(cat idVendor):$(cat idProduct), $(cat product)"
mount -o remount,size=90% /dev/shm
dd if=/dev/urandom of=/tmp/page bs=4M count=1 2>/dev/null
while [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -gt 24000 ]; do cat /tmp/page; done >/dev/shm/fill
echo "memory: filled"
cat >/usr/lib/guest/hang <<'END'
#!/bin/sh
echo 1 >/proc/sys/kernel/unknown_nmi_panic
exec watchdog -T 2 -t 60 /dev/watchdog0
END
chmod 755 /usr/lib/guest/hang
echo '::once:/usr/lib/guest/hang' >>/etc/inittab
reboot
`

/** A device at the other end of a TCP connection reaches the host, so a preset of the cluster grants it. */
function grantOf(port: number) {
  const source = { mode: 'connect', host: '127.0.0.1', service: `${port}` } as const
  const compiled = compilePreset({
    apiVersion,
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'usb' },
    spec: { selector: {}, domain: { devices: { redirdevs: [{ bus: 'usb', type: 'tcp', source }] } } },
  })
  if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
  return compiled.preset
}

const vm = (port: number): VirtualMachine =>
  linuxVm(
    script,
    {
      devices: {
        rngs: [{ model: 'virtio', backend: { model: 'builtin' } }],
        videos: [{ model: { type: 'virtio' } }],
        tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }],
        watchdogs: [{ model: 'i6300esb', action: 'inject-nmi' }],
        panics: [{ model: 'pvpanic' }],
      },
    },
    {},
    [grantOf(port)],
  )

test(
  'Linux sees its devices, fills its memory and reboots within the limit of the pod; its watchdog makes it panic',
  async () => {
    const device = await startRedirectedDevice()
    onTestFinished(() => device.close())
    const machine = vm(device.port)
    const cgroup = await makeMemoryCgroup(Number(launcherResources(machine.spec).limits['memory']))
    const launcher = await startLauncher({ cgroup, oomScoreAdj: 990 })
    onTestFinished(async () => {
      await launcher.stop()
      await cgroup.remove()
    })
    const folder = join(launcher.images, 'root/disk')
    await mkdir(folder, { recursive: true })
    await copyFile(linuxDisk(), join(folder, 'disk.qcow2'))
    for (const name of ['root', 'seed']) {
      await mkdir(join(launcher.volumes, name))
      await chown(join(launcher.volumes, name), launcherUid, launcherUid)
    }
    const { phase, message } = await launcher.put(machine)
    expect({ phase, message }).toEqual({ phase: 'Running', message: undefined })
    const console = await launcher.console()
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    const end = await launcher.reported('the guest has panicked', ({ exit }) => exit !== undefined, bootMs)
    expect(text.match(/^(rng|screen|watchdog|tpm|panic|usb|memory): .*(?=\r)/gm)).toEqual([
      'rng: virtio_rng.0, 16 bytes',
      'screen: card0 of virtio_gpu',
      'watchdog: i6300ESB timer',
      expect.stringMatching(/^tpm: (?!0{64})[\dA-F]{64}$/),
      'panic: pvpanic-pci',
      `usb: ${redirected.id}, ${redirected.name}`,
      'memory: filled',
    ])
    // The panic device ends QEMU before Linux prints why it panics.
    expect(end).toMatchObject({ phase: 'Shutoff', reason: 'crashed', exit: 'Failed' })
  },
  bootMs + 60_000,
)

import { expect, test } from 'vitest'
import type { Domain } from '../../../api/domain/domain.ts'
import { bundledCapabilities } from '../../capabilities.ts'
import { checkRules } from '../rules.ts'
import { testWarning } from '../../../test/rule-table.ts'

const nothing = 'nothing to boot from: the VM has no disk, network interface or kernel'

testWarning('no-boot-device', [
  { warned: {}, lines: [nothing], silent: { devices: { interfaces: [{ type: 'user' }] } } },
  {
    warned: { devices: { disks: [] } },
    lines: [nothing],
    silent: { devices: { disks: [{ source: { file: '/d' }, target: { dev: 'vda' } }] } },
  },
  {
    warned: { devices: {} },
    lines: [nothing],
    silent: { devices: { filesystems: [{ source: { dir: '/d' }, target: { dir: 't' } }] } },
  },
  {
    warned: { devices: {} },
    lines: [nothing],
    silent: { devices: { hostdevs: [{ type: 'pci', source: { address: { bus: 6, slot: 1 } } }] } },
  },
  {
    warned: { devices: {} },
    lines: [nothing],
    silent: {
      devices: { redirdevs: [{ bus: 'usb', type: 'tcp', source: { mode: 'connect', host: 'h', service: '1' } }] },
    },
  },
  {
    warned: { os: { type: { os: 'hvm' } } },
    lines: [nothing],
    silent: { os: { type: { os: 'hvm' }, kernel: '/vmlinuz' } },
  },
])

type Kind = 'hd' | 'cdrom' | 'fd' | 'network'

const boots = (dev: Kind, devices: Domain['devices'] = {}): Domain => ({
  os: { type: { os: 'hvm' }, boots: [{ dev }] },
  devices,
})

const missing = (dev: Kind): string[] => [`os.boots lists ${dev}, but the VM has no such device`]

testWarning('boot-kind-missing', [
  { warned: boots('network'), lines: missing('network'), silent: boots('network', { interfaces: [{ type: 'user' }] }) },
  {
    warned: boots('cdrom', { disks: [{ source: { file: '/d' }, target: { dev: 'vda' } }] }),
    lines: missing('cdrom'),
    silent: boots('cdrom', { disks: [{ device: 'cdrom', target: { dev: 'sda' } }] }),
  },
  {
    warned: boots('hd', { disks: [{ device: 'cdrom', target: { dev: 'sda' } }] }),
    lines: missing('hd'),
    silent: boots('hd', { disks: [{ source: { file: '/d' }, target: { dev: 'vda' } }] }),
  },
  {
    warned: boots('hd', { interfaces: [{ type: 'user' }] }),
    lines: missing('hd'),
    silent: boots('hd', {
      disks: [{ device: 'lun', type: 'block', source: { dev: '/dev/sda' }, target: { dev: 'sda', bus: 'scsi' } }],
    }),
  },
  {
    warned: boots('fd', { disks: [{ source: { file: '/d' }, target: { dev: 'vda' } }] }),
    lines: missing('fd'),
    silent: boots('fd', { disks: [{ device: 'floppy', target: { dev: 'fda' } }] }),
  },
  { warned: boots('fd'), lines: missing('fd'), silent: {} },
])

test('a kind that is refused, and so left out, causes no warning', () => {
  const domain: Domain = { os: { type: { os: 'hvm' }, boots: [{}] } }
  const { warnings } = checkRules(
    { domain },
    { capabilities: bundledCapabilities, originOf: () => ({ by: 'user' }), isGranted: () => false },
  )
  expect(warnings).not.toContainEqual(expect.stringContaining('os.boots'))
})

const machine = (machine: string): Domain => ({ os: { type: { os: 'hvm', machine } } })

testWarning('machine-deprecated', [
  {
    warned: machine('pc-i440fx-2.12'),
    lines: ['machine type pc-i440fx-2.12 is deprecated and will be removed from QEMU'],
    silent: machine('pc'),
  },
  {
    warned: machine('pc-i440fx-2.12'),
    lines: ['machine type pc-i440fx-2.12 is deprecated and will be removed from QEMU'],
    silent: machine('q35'),
  },
])

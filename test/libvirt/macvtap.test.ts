import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { startLauncher } from './launcher.ts'
import { smallVm } from './vm.ts'

/** A network namespace like that of a pod. Requires root. */
const network = `virtset-${process.pid}-macvtap`
const ip = (line: string) => execFileSync('ip', ['-n', network, ...line.split(' ')], { encoding: 'utf8' })
const mac = '52:54:00:00:00:01'

const tap = {
  type: 'ethernet',
  target: { dev: 'tap1', managed: false },
  mac: { address: mac },
  model: { type: 'virtio' },
}
const vm = smallVm({ devices: { interfaces: [tap] } })

/** Why there is no plugin `macvtap`: see docs/decisions/network-plugins.md. */
test('QEMU opens a tap without privileges, and no macvtap, whose device the pod does not have', async () => {
  execFileSync('ip', ['netns', 'add', network])
  onTestFinished(() => void execFileSync('ip', ['netns', 'delete', network]))
  ip('link add net1 type veth peer name other')
  const start = async () => {
    const launcher = await startLauncher({ network })
    const { phase, message } = await launcher.put(vm)
    await launcher.stop()
    return { phase, message }
  }
  ip('tuntap add name tap1 mode tap user 107 group 107')
  expect(await start()).toEqual({ phase: 'Running', message: undefined })
  ip('link delete tap1')
  ip(`link add link net1 name tap1 address ${mac} type macvtap mode passthru`)
  // The kernel creates it in the /dev of the host, which a pod does not see.
  const [index = ''] = ip('-oneline link show dev tap1').split(':')
  rmSync(`/dev/tap${index}`)
  expect(await start()).toEqual({
    phase: 'Shutoff',
    message: expect.stringMatching(/^Unable to create multiple fds for tap device tap1 .*: Invalid argument$/),
  })
})

import { expect, test } from 'vitest'
import { fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { runVm } from '../test/cli/world.ts'
import { Connection } from '../launcher/libvirt/connection.ts'
import { systemClock } from '../runtime/clock.ts'

const xml = (name: string) =>
  `<domain type="qemu"><name>${name}</name><memory>65536</memory><os><type>hvm</type></os></domain>`

test('domains of a daemon become VMs', async () => {
  const fake = fakeLibvirtd()
  const connection = new Connection(await fake.dial(), { clock: systemClock })
  await connection.open('qemu:///session')
  for (const name of ['one', 'two']) await connection.call('domain_define_xml_flags', { xml: xml(name), flags: 0 })
  connection.close()
  const dialled: string[] = []
  const { code, out, err } = await runVm(['import', '--from', 'qemu:///session'], {
    environment: { XDG_RUNTIME_DIR: '/run/user/1' },
    dial: (path) => {
      dialled.push(path)
      return fake.dial()
    },
  })
  expect([code, err, dialled]).toEqual([0, '', ['/run/user/1/libvirt/libvirt-sock']])
  expect(out.match(/^ {2}name: .*$/gm)).toEqual(['  name: one', '  name: two'])
})

test.each([
  [
    ['--socket', '/nowhere'],
    'error: no libvirt daemon responds (/nowhere: no daemon); use --socket PATH for another socket\n',
  ],
  [
    ['--from', 'qemu:///system'],
    'error: no libvirt daemon responds (/run/libvirt/libvirt-sock: no daemon; /run/libvirt/virtqemud-sock: no daemon); use --socket PATH for another socket\n',
  ],
  [['--from', 'xen:///'], 'error: --from xen:///: must be qemu:///system or qemu:///session\n'],
])('%j without a daemon', async (words, err) => {
  expect(await runVm(['import', ...words])).toEqual({ code: 2, out: '', err })
})

test('finds the modular daemon of QEMU if there is no other', async () => {
  const fake = fakeLibvirtd()
  const dial = (path: string) =>
    path === '/run/libvirt/virtqemud-sock' ? fake.dial() : Promise.reject(new Error('nothing'))
  expect(await runVm(['import', '--from', 'qemu:///system'], { dial })).toEqual({
    code: 0,
    out: '',
    err: 'the libvirt daemon at /run/libvirt/virtqemud-sock has no domains\n',
  })
})

import { connect } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { Client } from '../../launcher/libvirt/client.ts'
import {
  defineDomain,
  killDomain,
  listDomains,
  readState,
  readXml,
  startDomain,
  undefineDomain,
  type DomainRef,
} from '../../launcher/libvirt/domain.ts'
import { systemClock } from '../../runtime/clock.ts'
import { files } from '../cli/files.ts'
import { runVm } from '../cli/world.ts'
import { xmlTree } from '../xml-tree.ts'
import { guestDisk, guestXml } from './guest.ts'
import { startLibvirtd, type Libvirtd } from './libvirtd.ts'

let libvirtd: Libvirtd
let client: Client
beforeAll(async () => {
  libvirtd = await startLibvirtd()
  client = new Client({
    dial: () => dial(libvirtd.socket),
    uri: 'qemu:///session',
    clock: systemClock,
    onHint: () => {},
  })
  client.start()
})
afterAll(async () => {
  client?.close()
  await libvirtd?.stop()
})

function dial(path: string) {
  return new Promise<ReturnType<typeof connect>>((resolve, reject) => {
    const socket = connect(path, () => resolve(socket)).once('error', reject)
  })
}

async function define(name: string): Promise<DomainRef> {
  const disk = await libvirtd.writeFile(`${name}.img`, guestDisk('idle'))
  const dom = await defineDomain(
    client,
    guestXml({ name, disk, devices: "<serial type='pty'/><video><model type='vga'/></video>" }),
  )
  onTestFinished(async () => {
    if ((await readState(client, dom))?.state === 'running') await killDomain(client, dom)
    await undefineDomain(client, dom)
  })
  return dom
}

const importAll = (...more: string[]) =>
  runVm(['import', '--from', 'qemu:///session', '--socket', libvirtd.socket, ...more], { dial })

test('reports a daemon without domains', async () => {
  expect(await importAll()).toEqual({
    code: 0,
    out: '',
    err: `the libvirt daemon at ${libvirtd.socket} has no domains\n`,
  })
})

test('running and stopped domains become VMs with everything that libvirt stores of them', async () => {
  const [running, resting] = [await define('runs'), await define('Rests_')]
  await startDomain(client, running)
  const { code, out, err } = await importAll()
  expect([code, err]).toEqual([0, ''])
  const vms = parseAllDocuments(out).map((document) => document.toJS())
  expect(vms.map(({ kind, metadata }) => `${kind} ${metadata.name}`).toSorted()).toEqual([
    'VirtualMachine rests',
    'VirtualMachine runs',
  ])
  // The conversion to a VM and back loses nothing.
  const at = files({ 'vms.yaml': out })
  const back = (await runVm(['export', at('vms.yaml')])).out
  const expected = await Promise.all([running, resting].map((dom) => readXml(client, dom, { inactive: true })))
  expect(trees(back)).toEqual(trees(expected.join('')))
  expect((await readState(client, running))?.state).toBe('running')
  expect(await listDomains(client)).toHaveLength(2)
})

/** The trees of the domains in one text, by name. */
const trees = (xml: string) =>
  xml
    .split(/(?<=<\/domain>)/)
    .filter((one) => one.trim() !== '')
    .map((one) => xmlTree(one))
    .toSorted((left, right) => (JSON.stringify(left) < JSON.stringify(right) ? -1 : 1))

test('writes each domain to a file', async () => {
  await define('one')
  await define('two')
  const at = files({})
  expect(await importAll('--out-dir', at('vms'))).toEqual({ code: 0, out: '', err: '' })
  const again = await runVm(['complete', at('vms'), '--no-validate', '-o', 'xml'])
  expect([again.code, again.out.match(/<domain /g)?.length]).toEqual([0, 2])
})

test('reports a socket that the user cannot open', async () => {
  const unprivileged = 65_534
  const asNobody = (path: string) => {
    process.seteuid?.(unprivileged)
    try {
      return dial(path)
    } finally {
      process.seteuid?.(0)
    }
  }
  expect(await runVm(['import', '--socket', libvirtd.socket], { dial: asNobody })).toEqual({
    code: 2,
    out: '',
    err: `error: ${libvirtd.socket}: permission denied; only root and the group libvirt may open it\n`,
  })
})

test.each([
  ['nothing at all', () => '/nowhere/libvirt-sock', /\(\/nowhere\/libvirt-sock: does not exist\)/],
  ['a file that is not a socket', () => files({ sock: '' })('sock'), /sock: connect ECONNREFUSED/],
])('%s in place of a daemon', async (_, socket, message) => {
  const { code, out, err } = await runVm(['import', '--socket', socket()], { dial })
  expect([code, out]).toEqual([2, ''])
  expect(err).toMatch(/^error: no libvirt daemon responds \(.*\); use --socket PATH for another socket\n$/)
  expect(err).toMatch(message)
})

test("reports libvirt's message for a daemon without that driver", async () => {
  const { code, err } = await runVm(['import', '--from', 'qemu:///system', '--socket', libvirtd.socket], { dial })
  expect(code).toBe(2)
  expect(err).toMatch(/^error: the libvirt daemon at .*: internal error: .*try qemu:\/\/\/session\n$/)
})

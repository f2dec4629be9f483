import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { readDomain, writeDomain } from '../../api/domain/xml.ts'
import { specDrift } from '../../launcher/drift.ts'
import { Client } from '../../launcher/libvirt/client.ts'
import { defineDomain, readXml, undefineDomain } from '../../launcher/libvirt/domain.ts'
import { systemClock } from '../../runtime/clock.ts'
import { type Libvirtd, startLibvirtd } from './libvirtd.ts'

let libvirtd: Libvirtd
let client: Client

beforeAll(async () => {
  libvirtd = await startLibvirtd()
  client = new Client({ dial, uri: 'qemu:///session', clock: systemClock, onHint: () => {} })
  client.start()
})

afterAll(async () => {
  client.close()
  await libvirtd.stop()
})

const dial = async () => {
  const socket = connect(libvirtd.socket)
  await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return socket
}

/** The domain that libvirt stored after `domain` was defined. */
async function defined(domain: Domain): Promise<Domain> {
  const dom = await defineDomain(client, writeDomain(domain))
  const xml = await readXml(client, dom, { inactive: true })
  await undefineDomain(client, dom)
  const read = readDomain(xml ?? '')
  if ('causes' in read) throw new Error(JSON.stringify(read.causes))
  return read.domain
}

const short: Domain = {
  type: 'qemu',
  name: 'drift',
  memory: { unit: 'MB', value: 64 },
  os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc' } },
  devices: {
    disks: [{ type: 'file', source: { file: '/x.img' }, target: { dev: 'vda' } }],
    serials: [{ type: 'pty' }],
  },
}

test('a short domain drifts only in fields that libvirt adds', async () => {
  const drift = specDrift(short, await defined(short))
  expect(drift.map(({ field }) => field)).toContain('spec.domain.uuid')
  expect(drift.filter(({ spec }) => spec !== undefined && typeof spec !== 'object')).toEqual([])
})

test("libvirt's own result does not drift, in any spelling", async () => {
  const whole = await defined(short)
  expect(specDrift(whole, await defined(whole))).toEqual([])
  const respelled = { ...whole, memory: { unit: 'MB' as const, value: 64 } }
  expect(specDrift(respelled, await defined(respelled))).toEqual([])
})

test('a domain that means something else drifts in that field', async () => {
  const whole = await defined(short)
  const other = { ...whole, vcpu: { ...whole.vcpu, value: 2 } }
  expect(specDrift(other, whole)).toEqual([{ field: 'spec.domain.vcpu.value', spec: 2, libvirt: 1 }])
})

test('passwords and cookies, which libvirt does not show, do not drift', async () => {
  const cookies = { cookies: [{ name: 'session', value: 'hidden' }] }
  const source = { protocol: 'https' as const, name: 'a', host: { name: 'example.org', port: 443 }, cookies }
  const secret: Domain = {
    ...short,
    devices: {
      disks: [{ type: 'network', source, target: { dev: 'vda' } }],
      graphics: [{ type: 'vnc', passwd: 'hidden' }],
    },
  }
  const whole = await defined(secret)
  expect(JSON.stringify(whole)).not.toContain('hidden')
  expect(whole.devices?.graphics).toHaveLength(1)
  expect(specDrift(secret, whole).filter(({ field }) => /graphics\[0\]\.passwd|cookies/.test(field))).toEqual([])
})

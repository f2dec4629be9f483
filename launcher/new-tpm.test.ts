import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { failLooks } from '../test/failing-looks.ts'
import { beginTpms, finishTpms } from './new-tpm.ts'

let claim: string
let state: string
beforeEach(async () => {
  claim = await mkdtemp(join(tmpdir(), 'claim-'))
  state = join(claim, 'vm_TPM')
})
afterEach(() => rm(claim, { recursive: true }))

const domain = (): Domain => ({
  devices: { tpms: [{ backend: { type: 'emulator', source: { type: 'dir', path: state } } }] },
})

/** As libvirt does before the first start. */
async function make(content: string): Promise<void> {
  await mkdir(state, { recursive: true })
  await writeFile(join(state, 'tpm2-00.permall'), content)
}

const names = async () => (await readdir(claim)).map((name) => name.replace(/-\w{6}$/, '-X')).toSorted()
const content = () => readFile(join(state, 'tpm2-00.permall'), 'utf8')

test('the state of a TPM is unfinished until libvirt has made it', async () => {
  await beginTpms(domain())
  await make('keys')
  expect(await names()).toEqual(['vm_TPM', 'vm_TPM.unfinished'])
  await finishTpms(domain())
  expect([await names(), await content()]).toEqual([['vm_TPM'], 'keys'])
})

test('state that was half made when the launcher was killed is made again', async () => {
  await beginTpms(domain())
  await make('half')
  await beginTpms(domain())
  expect(await names()).toEqual(['TPM.unfinished-X', 'vm_TPM.unfinished'])
  await make('keys')
  await finishTpms(domain())
  expect([await names(), await content()]).toEqual([['TPM.unfinished-X', 'vm_TPM'], 'keys'])
})

test('half made state of a VM with a long name is made again', async () => {
  state = join(claim, `${'v'.repeat(240)}_TPM`)
  await beginTpms(domain())
  await make('half')
  await beginTpms(domain())
  expect(await names()).toEqual(['TPM.unfinished-X', `${'v'.repeat(240)}_TPM.unfinished`])
})

test.each(['finished', 'of an earlier version'])('state that is %s is kept', async (what) => {
  if (what === 'finished') await beginTpms(domain())
  await make('keys')
  if (what === 'finished') await finishTpms(domain())
  await beginTpms(domain())
  expect([await names(), await content()]).toEqual([['vm_TPM'], 'keys'])
})

test('state that libvirt has removed is made again, as in a directory with a lock alone', async () => {
  await beginTpms(domain())
  await mkdir(state)
  await writeFile(join(state, '.lock'), '')
  await beginTpms(domain())
  expect(await names()).toEqual(['vm_TPM', 'vm_TPM.unfinished'])
})

test('a link in place of the state or of its mark is not followed', async () => {
  const other = await mkdtemp(join(tmpdir(), 'other-'))
  await writeFile(join(other, 'disk.img'), 'data')
  await symlink(join(other, 'disk.img'), `${state}.unfinished`)
  await beginTpms(domain())
  await symlink(other, state)
  await beginTpms(domain())
  expect(await names()).toEqual(['TPM.unfinished-X', 'vm_TPM.unfinished'])
  expect(await readFile(join(other, 'disk.img'), 'utf8')).toBe('data')
  await rm(other, { recursive: true })
})

test.each(['EIO', 'EACCES'])('state that the storage does not show (%s) gets no mark', async (code) => {
  await make('keys')
  failLooks(code)
  await expect(beginTpms(domain())).rejects.toThrow(code)
  expect(await names()).toEqual(['vm_TPM'])
})

test('a mark that the storage does not show does not outlive the start', async () => {
  await beginTpms(domain())
  await make('keys')
  failLooks('EIO')
  await finishTpms(domain())
  expect(await names()).toEqual(['vm_TPM'])
})

test.each(['without state', 'with state'])('a directory in place of the mark of a TPM %s is refused', async (what) => {
  await mkdir(`${state}.unfinished`)
  if (what === 'with state') await make('keys')
  const before = await names()
  await expect(beginTpms(domain())).rejects.toMatchObject({
    name: 'Refused',
    reason: 'StartFailed',
    message: `${state}.unfinished is a directory, and has to be a file: remove it from the claim of the TPM`,
  })
  expect(await names()).toEqual(before)
})

test('a TPM is not used as long as its mark cannot be removed', async () => {
  // As any failure but that there is none.
  await mkdir(`${state}.unfinished`)
  await expect(finishTpms(domain())).rejects.toThrow('EISDIR')
})

test.each<[string, Domain]>([
  ['without a TPM', {}],
  ['with that of the node', { devices: { tpms: [{ backend: { type: 'passthrough' } }] } }],
  ['with one in the pod', { devices: { tpms: [{ backend: { type: 'emulator' } }] } }],
])('a domain %s leaves nothing', async (_, without) => {
  await beginTpms(without)
  await finishTpms(without)
  expect(await names()).toEqual([])
})

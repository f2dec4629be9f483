import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { confine, libvirtRootfs, makeOwned, makeRunDirectory, type RunDirectory, uid } from './rootfs.ts'

const mebibyte = 1024 * 1024
/** Zeros are not allocated in qcow2. The file is larger than the part of it that is copied first. */
const content = Buffer.concat([randomBytes(4 * mebibyte), Buffer.alloc(mebibyte), randomBytes(1000 * 512)])
const secret = Buffer.alloc(8 * mebibyte, 'a secret of the pod. ')

/** Of the guest of another VM, which shares the claim: it acts when qemu-img is about to open the disk. */
const qemuImg = `#!/bin/sh
case $* in *driver*) [ ! -e "$HOME/evil" ] || dd if="$HOME/evil" of="$HOME/claim/source" conv=notrunc 2>/dev/null ;; esac
exec /usr/bin/qemu-img "$@"
`

let directory: RunDirectory
const outside = (name: string) => join(directory.outside, name)
const inside = (name: string) => join(directory.inside, name)
const run = (...args: string[]) => execFileSync('chroot', [libvirtRootfs(), 'qemu-img', ...args])

beforeEach(async () => {
  directory = await makeRunDirectory(libvirtRootfs())
  for (const name of ['bin', 'claim', 'scratch']) await makeOwned(outside(name))
  await mkdir(outside('project'))
  await writeFile(outside('bin/qemu-img'), qemuImg)
  await chmod(outside('bin/qemu-img'), 0o755)
  await writeFile(outside('raw'), content)
  await writeFile(outside('secret'), secret)
  run('convert', '-f', 'raw', '-O', 'qcow2', inside('raw'), inside('claim/source'))
  await chown(outside('claim/source'), uid, uid)
})

/** A qcow2 disk that has the secret as its data file, and no more than its header and tables. */
async function makeEvil(name: string): Promise<void> {
  const size = String(content.length)
  const options = `data_file=${inside('secret')},data_file_raw=on,preallocation=metadata`
  run('create', '-q', '-f', 'qcow2', '-o', options, inside(name), size)
  await writeFile(outside('secret'), secret)
}

/** What the launcher prints, and what it has written. */
async function convert(env: { readonly [name: string]: string } = {}): Promise<[string, Buffer]> {
  const project = inside('project')
  const words = [inside('claim/source'), inside('claim/target'), inside('scratch')]
  const pod = confine({
    rootfs: libvirtRootfs(),
    directory,
    script: `cd ${project} && node_modules/node/bin/node test/libvirt/convert-disk-main.ts ${words.join(' ')} 2>&1`,
    env: { PATH: `${inside('bin')}:/usr/bin:/bin`, ...env },
    binds: { [project]: resolve(import.meta.dirname, '../..') },
  })
  onTestFinished(() => pod.stop())
  let output = ''
  pod.process.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await pod.ended
  expect(await readdir(outside('scratch'))).toEqual([])
  return [output, await readFile(outside('claim/target'))]
}

test('a qcow2 disk is converted', async () => {
  const [output, converted] = await convert()
  expect(output).toBe('')
  expect(converted.equals(content)).toBe(true)
})

test('a data file that is named while the disk is opened is not', async () => {
  await makeEvil('evil')
  const [output, converted] = await convert()
  expect([output, converted.includes('a secret of the pod')]).toEqual(['', false])
  // All that the header decides remains; what the other guest has written elsewhere is its content.
  expect(converted.length).toBe(content.length)
})

test('a disk that was changed after it was examined is refused', async () => {
  await makeEvil('changed')
  const [output, converted] = await convert({ CHANGED: inside('changed') })
  expect(output).toContain('the source was changed after it was examined')
  expect(converted.length).toBe(0)
})

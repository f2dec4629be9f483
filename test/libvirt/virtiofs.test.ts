import { chmod, chown, copyFile, mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { launcherResources } from '../../api/launcher-resources.ts'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { until } from '../until.ts'
import { startLauncher } from './launcher.ts'
import { linuxDisk } from './linux-disk.ts'
import { linuxVm } from './linux-vm.ts'
import { makeMemoryCgroup } from './memory-cgroup.ts'
import { confine, libvirtRootfs, makeOwned, makeRunDirectory, uid as launcherUid } from './rootfs.ts'
import { vmUid } from './vm.ts'

/** A boot takes 20 s, and many times that on a busy machine. */
const bootMs = 900_000

/** In place of virtiofsd: what it can do, and its arguments. Without Landlock, it can do all but make a device. */
const probe = `#!/bin/sh
try() { if (eval "$2") 2>&-; then echo "can $1"; else echo "cannot $1"; fi; }
try 'read what it shares' 'cat "$HOME/volumes/data/file"'
try 'write it' ': >"$HOME/volumes/data/new"'
try 'rename in it' 'mkdir "$HOME/volumes/data/a" && mv "$HOME/volumes/data/new" "$HOME/volumes/data/a/"'
try 'remove from it' 'rm -r "$HOME/volumes/data/a"'
try 'make a device in it' 'mknod "$HOME/volumes/data/null" c 1 3'
try 'read another volume' 'cat "$HOME/volumes/other/file"'
try 'follow a link out of it' 'cat "$HOME/volumes/data/link"'
try 'list the pod' 'ls "$HOME"'
try 'write another volume' ': >>"$HOME/volumes/other/file"'
try 'truncate in another volume' 'truncate -s 0 "$HOME/volumes/other/file"'
try 'link a file into it' 'ln "$HOME/launcher.sock" "$HOME/volumes/data/linked"'
try 'move a file into it' 'mv "$HOME/volumes/other/moved" "$HOME/volumes/data/"'
try 'remove a socket' 'rm "$HOME/launcher.sock"'
try 'read users' 'cat /etc/passwd'
try 'read the environment of another process' 'cat /proc/1/environ'
echo "arguments: $*"
`

test('virtiofsd reaches only what it shares, and gets no maps of users', async () => {
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const outside = (name: string) => join(directory.outside, name)
  for (const name of ['volumes', 'volumes/data', 'volumes/other']) await makeOwned(outside(name))
  for (const name of ['volumes/data/file', 'volumes/other/file', 'volumes/other/moved', 'launcher.sock']) {
    await writeFile(outside(name), 'content\n')
    await chown(outside(name), launcherUid, launcherUid)
  }
  await writeFile(outside('probe'), probe)
  await chmod(outside('probe'), 0o755)
  const shared = `${directory.inside}/volumes/data`
  const options = '--uid-map=:0:107:1: --gid-map=:0:107:1: --rlimit-nofile=9'
  const wrapper = '/usr/local/libexec/virtiofsd'
  const pod = confine({
    rootfs,
    directory,
    script: `ln -s ../other/file ${shared}/link
      ${wrapper} --fd=3 --shared-dir ${shared} ${options}
      ${wrapper} --print-capabilities ${options}`,
    binds: { '/usr/libexec/virtiofsd': outside('probe') },
  })
  onTestFinished(() => pod.stop())
  let output = ''
  pod.process.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await pod.ended
  const [confined, free] = output.split('arguments: ').map((part) => part.match(/can(?:not)? .*$/gm) ?? [])
  const maps = ['uid', 'gid'].map(
    (id) => `--translate-${id}=host:107:0:1 --translate-${id}=squash-guest:0:107:4294967295`,
  )
  expect(output.match(/^arguments: .*$/gm)).toEqual([
    `arguments: --fd=3 --shared-dir ${shared} --rlimit-nofile=9 --sandbox=none ${maps.join(' ')}`,
    'arguments: --print-capabilities --rlimit-nofile=9',
  ])
  expect(confined).toEqual([
    'can read what it shares',
    'can write it',
    'can rename in it',
    'can remove from it',
    'cannot make a device in it',
    'cannot read another volume',
    'cannot follow a link out of it',
    'cannot list the pod',
    'cannot write another volume',
    'cannot truncate in another volume',
    'cannot link a file into it',
    'cannot move a file into it',
    'cannot remove a socket',
    'cannot read users',
    'cannot read the environment of another process',
  ])
  expect(free?.filter((line) => line.startsWith('cannot'))).toEqual(['cannot make a device in it'])
  expect(free).toHaveLength(confined?.length ?? 0)
})

/** More files than virtiofsd can have open. */
const files = 1200
const mostOpen = 1000

const script = `#!/bin/sh
exec >/dev/console 2>&1
mkdir /data /fixed
mount -t virtiofs data /data && mount -t virtiofs fixed /fixed
echo "read: $(cat /data/hello)"
mkdir -m 777 /data/new && echo written >/data/new/file && mv /data/new/file /data/new/moved
chown 5:5 /data/new/moved && chmod 640 /data/new/moved
echo 'user:x:1000:1000::/:/bin/sh' >>/etc/passwd
su user -c 'echo mine >/data/new/of-a-user'
ln -s /etc/hostname /data/new/link
echo "owners: $(ls -ln /data/new | awk '/^[-l]/ { print $3 ":" $4 }' | sort -u | xargs)"
mknod /data/new/device c 1 3 && echo made a device
echo no >/fixed/file || echo "fixed: $(cat /fixed/file)"
i=0; while [ $i -lt ${files} ]; do true </data/many/f$i; i=$((i + 1)); done 2>/tmp/errors
echo "many: $(sed 's/.*: //' /tmp/errors | sort -u)"
echo 2 >/proc/sys/vm/drop_caches
echo "afterwards: $(cat /data/hello)"
echo the end
`

const vm = (): VirtualMachine =>
  linuxVm(
    script,
    {
      devices: {
        filesystems: [
          { source: { volume: 'data' }, target: { dir: 'data' }, binary: { openfiles: { max: mostOpen } } },
          { source: { volume: 'fixed' }, target: { dir: 'fixed' }, readonly: {} },
        ],
      },
    },
    {
      volumes: [
        { name: 'data', persistentVolumeClaim: { claimName: 'data' } },
        { name: 'fixed', persistentVolumeClaim: { claimName: 'fixed' } },
      ],
    },
  )

test(
  'Linux reads and writes a volume that is shared with it; the VM reports when nothing serves it any more',
  async () => {
    const machine = vm()
    const cgroup = await makeMemoryCgroup(Number(launcherResources(machine.spec).limits['memory']))
    const launcher = await startLauncher({ cgroup, oomScoreAdj: 990 })
    onTestFinished(async () => {
      await launcher.stop()
      await cgroup.remove()
    })
    const image = join(launcher.images, 'root/disk')
    await mkdir(image, { recursive: true })
    await copyFile(linuxDisk(), join(image, 'disk.qcow2'))
    for (const name of ['root', 'seed', 'data', 'data/many', 'fixed']) await makeOwned(join(launcher.volumes, name))
    const data = join(launcher.volumes, 'data')
    await writeFile(join(data, 'hello'), 'from the claim')
    await writeFile(join(launcher.volumes, 'fixed/file'), 'unchanged')
    await chown(join(launcher.volumes, 'fixed/file'), launcherUid, launcherUid)
    for (let index = 0; index < files; index += 1) await writeFile(join(data, 'many', `f${index}`), '')
    const { phase, message, specDrift } = await launcher.put(machine)
    expect({ phase, message, specDrift }).toEqual({ phase: 'Running', message: undefined, specDrift: [] })

    const console = await launcher.console()
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    await until(() => text.includes('the end\r\n'), undefined, { deadlineMs: bootMs, describe: () => text })
    expect(text.match(/^(read|owners|made|fixed|many|afterwards|.*mount|.*chown): .*(?=\r)/gm)).toEqual([
      'read: from the claim',
      'owners: 0:0',
      'fixed: unchanged',
      'many: Too many open files in system',
      'afterwards: from the claim',
    ])
    expect(await readFile(join(data, 'new/moved'), 'utf8')).toBe('written\n')
    expect(await readFile(join(data, 'new/of-a-user'), 'utf8')).toBe('mine\n')
    expect((await readdir(join(data, 'new'))).toSorted()).toEqual(['link', 'moved', 'of-a-user'])
    const { uid: owner, gid, mode } = await stat(join(data, 'new/moved'))
    expect([owner, gid, mode & 0o777]).toEqual([launcherUid, launcherUid, 0o640])

    await launcher.signal('virtiofsd', 'SIGKILL')
    const lost = await launcher.reported(
      'file systems are lost',
      ({ lostFilesystems }) => lostFilesystems?.length === 2,
    )
    expect(lost).toMatchObject({ phase: 'Running', lostFilesystems: ['data', 'fixed'] })
    await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 0 })
    await launcher.reported('it has ended', ({ exit }) => exit !== undefined)
  },
  bootMs + 60_000,
)

test('a volume without a directory, as of a block volume, is refused', async () => {
  const launcher = await startLauncher()
  onTestFinished(() => launcher.stop())
  const spec = {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 32 },
      os: { type: { os: 'hvm' } },
      devices: {
        filesystems: [
          { type: 'volume', driver: { type: 'virtiofs' }, source: { volume: 'data' }, target: { dir: 'data' } },
        ],
      },
    },
    volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
  }
  const machine = { apiVersion, kind: 'VirtualMachine', metadata: { name: 'testvm', uid: vmUid }, spec }
  expect(await launcher.put(machine)).toMatchObject({
    exit: 'Failed',
    reason: 'volumeUnavailable',
    message: 'volume "data": a file system of the guest requires a claim with volumeMode Filesystem',
  })
})

import { execFile } from 'node:child_process'
import { chown, link, mkdir, readdir, readFile, stat, symlink, writeFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { afterEach, describe, expect, test } from 'vitest'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { isPng } from '../../runtime/session-api.ts'
import { type GuestProgram, guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { uid as launcherUid } from './rootfs.ts'
import { smallVm, vmUid, volumeDisk } from './vm.ts'
import { eventually } from '../until.ts'

let launcher: RunningLauncher

afterEach(() => launcher.stop())

const serials = [{ type: 'pty' }]

function vmWith(guest: { disks?: unknown[]; volumes?: unknown[]; devices?: object; domain?: object; grace?: number }) {
  const { disks = [], volumes, devices, domain, grace } = guest
  return smallVm(
    { devices: { disks, serials, ...devices }, ...domain },
    {
      ...(volumes === undefined ? {} : { volumes }),
      ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }),
    },
  )
}

const claim = (claimName: string) => ({ name: 'root', persistentVolumeClaim: { claimName } })

/** The CPUs that the threads with these names can use. */
async function cpusOfThreads(pid: number | undefined, name: RegExp): Promise<string[]> {
  const threads = `/proc/${pid}/task`
  const all = await Promise.all((await readdir(threads)).map((id) => readFile(join(threads, id, 'status'), 'utf8')))
  return all
    .filter((status) => name.test(/^Name:\t(.*)$/m.exec(status)?.[1] ?? ''))
    .map((status) => /^Cpus_allowed_list:\t(.*)$/m.exec(status)?.[1] ?? '')
    .toSorted()
}

/** A launcher whose volume `root` is a claim with a disk that boots the program. */
async function launcherWith(program: GuestProgram, devices: object = {}): Promise<ReturnType<typeof vmWith>> {
  launcher = await startLauncher()
  await writeOwned('root/disk.img', guestDisk(program))
  return vmWith({ disks: [volumeDisk('root', 'vda')], volumes: [claim('disk-of-testvm')], devices })
}

/** Such a launcher, once its guest was started. */
async function started(program: GuestProgram): Promise<DomainReport> {
  const vm = await launcherWith(program)
  return launcher.put(vm)
}

async function writeOwned(name: string, content: Uint8Array | string): Promise<void> {
  const path = join(launcher.volumes, name)
  await mkdir(join(path, '..'), { recursive: true })
  await chown(join(path, '..'), launcherUid, launcherUid)
  await writeFile(path, content)
  await chown(path, launcherUid, launcherUid)
}

describe('a VM', () => {
  test('runs, accepts the same VM again, and refuses another one', async () => {
    const vm = await launcherWith('idle')
    const report = await launcher.put(vm)
    expect(report).toMatchObject({ vmUID: vmUid, phase: 'Running', reason: 'unpaused' })
    expect(report.domain).toMatchObject({ name: 'testvm', uuid: vmUid })
    expect(await launcher.put(vm)).toMatchObject({ phase: 'Running' })
    const pids = await launcher.pids('qemu-system-x86')
    expect(pids).toHaveLength(1)
    expect(await readFile(`/proc/${pids[0]}/cmdline`, 'utf8')).toContain(',mem-merge=off')
    const other = { ...vm, metadata: { name: 'testvm', namespace: 'default', uid: 'another' } }
    expect(await launcher.ask('PUT', '/vm', other)).toMatchObject({
      status: 409,
      body: { error: { reason: 'OtherVirtualMachine' } },
    })
  })

  test('with dedicated CPUs has each virtual CPU on one, and does not start if others use them, too', async () => {
    launcher = await startLauncher()
    const count = availableParallelism()
    const vm = vmWith({ domain: { vcpu: { value: count } } })
    const report = await launcher.put({ ...vm, spec: { ...vm.spec, dedicatedCPUs: true } })
    expect(report).toMatchObject({ phase: 'Running' })
    const [qemu] = await launcher.pids('qemu-system-x86')
    expect(await cpusOfThreads(qemu, /^CPU \d+\//)).toEqual(Array.from({ length: count }, (_, cpu) => `${cpu}`))
    await launcher.stop()
    launcher = await startLauncher()
    const wider = vmWith({ domain: { vcpu: { value: count + 1 } } })
    expect(await launcher.put({ ...wider, spec: { ...wider.spec, dedicatedCPUs: true } })).toMatchObject({
      exit: 'Failed',
      message: expect.stringContaining(`the pod requested ${count + 1} CPUs and can use ${count} `),
    })
  })

  test('whose guest powers itself off has succeeded; the launcher waits until that is read, and exits with 0', async () => {
    await started('powerOff')
    const report = await launcher.reported('it ended', ({ exit }) => exit !== undefined)
    expect(report).toMatchObject({ phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' })
    expect(await launcher.ask('POST', '/final')).toMatchObject({ status: 202 })
    expect(await launcher.exitCode).toBe(0)
  })

  test('whose QEMU is killed has failed; the launcher exits with 1 and starts no other QEMU', async () => {
    await started('idle')
    await launcher.signal('qemu-system-x86', 'SIGKILL')
    const report = await launcher.reported('it ended', ({ exit }) => exit !== undefined)
    const message = 'the guest panicked, or QEMU crashed or was killed'
    expect(report).toMatchObject({ phase: 'Shutoff', reason: 'crashed', exit: 'Failed', message })
    expect(await launcher.pids('qemu-system-x86')).toEqual([])
    await launcher.ask('POST', '/final')
    expect(await launcher.exitCode).toBe(1)
    expect(await launcher.terminationLog()).toBe(message)
  })

  test('continues to run when libvirtd is killed, and the new libvirtd reports it', async () => {
    await started('idle')
    const [qemu] = await launcher.pids('qemu-system-x86')
    const killed = await launcher.pids('libvirtd')
    await launcher.signal('libvirtd', 'SIGKILL')
    await eventually('another libvirtd', async () =>
      (await launcher.pids('libvirtd')).some((pid) => !killed.includes(pid)),
    )
    expect(await launcher.reported('it runs', ({ phase }) => phase === 'Running')).toMatchObject({ vmUID: vmUid })
    expect(await launcher.pids('qemu-system-x86')).toEqual([qemu])
    // Events are delivered again as well.
    await launcher.signal('qemu-system-x86', 'SIGKILL')
    await launcher.reported('it ended', ({ exit }) => exit === 'Failed')
  })

  test('continues to run with a full disk when libvirtd is killed, and libvirtd reconnects to it', async () => {
    launcher = await startLauncher({ privateBytes: 8 * 2 ** 20 })
    await launcher.put(vmWith({}))
    const [qemu] = await launcher.pids('qemu-system-x86')
    await launcher.fillPrivate()
    const [libvirtd] = await launcher.pids('libvirtd')
    await launcher.signal('libvirtd', 'SIGKILL')
    await eventually('another libvirtd', async () => {
      const [now] = await launcher.pids('libvirtd')
      return now !== undefined && now !== libvirtd
    })
    expect(await launcher.reported('it runs', ({ phase }) => phase === 'Running')).toMatchObject({ vmUID: vmUid })
    expect(await launcher.pids('qemu-system-x86')).toEqual([qemu])
  })

  test('whose QEMU dies together with libvirtd has failed', async () => {
    await started('idle')
    await launcher.signal('libvirtd', 'SIGKILL')
    await launcher.signal('qemu-system-x86', 'SIGKILL')
    expect(await launcher.reported('it ended', ({ exit }) => exit !== undefined)).toMatchObject({ exit: 'Failed' })
  })

  test('ends with the launcher', async () => {
    await started('idle')
    const [qemu = 0] = await launcher.pids('qemu-system-x86')
    await launcher.signal('virt-launcher', 'SIGKILL')
    expect(await launcher.exitCode).not.toBe(0)
    expect(() => process.kill(qemu, 0)).toThrow('ESRCH')
  })
})

describe('shutdown', () => {
  test('destroys a guest that ignores it at the deadline of the first request', async () => {
    await started('idle')
    expect(await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 5 })).toMatchObject({ status: 202 })
    const first = await launcher.reported('the deadline', ({ deadline }) => deadline !== undefined)
    expect(first.phase).toBe('ShuttingDown')
    await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 3600 })
    expect((await launcher.report()).deadline).toBe(first.deadline)
    const last = await launcher.reported('it ended', ({ exit }) => exit !== undefined)
    expect(last).toMatchObject({ phase: 'Shutoff', reason: 'destroyed', exit: 'Failed' })
    expect(Date.parse(last.observedAt)).toBeGreaterThanOrEqual(Date.parse(first.deadline ?? ''))
  })

  test('does not read a deadline from metadata that the user wrote', async () => {
    const metadata = '<v:grace xmlns:v="https://virtset.io/launcher/1" deadline="2999-01-01T00:00:00Z"/>'
    launcher = await startLauncher()
    expect(await launcher.put(vmWith({ domain: { metadata } }))).toMatchObject({ phase: 'Running' })
    await launcher.ask('POST', '/shutdown', { gracePeriodSeconds: 1 })
    const last = await launcher.reported('it ended', ({ exit }) => exit !== undefined)
    expect(last).toMatchObject({ phase: 'Shutoff', reason: 'destroyed', exit: 'Failed' })
  })

  test('by the kubelet uses the VM’s own grace period', async () => {
    const vm = await launcherWith('idle')
    await launcher.put({
      ...vm,
      spec: { ...vmWith({}).spec, ...('spec' in vm && Object(vm.spec)), terminationGracePeriodSeconds: 1 },
    })
    await launcher.signal('tini', 'SIGTERM')
    expect(await launcher.reported('it ended', ({ exit }) => exit !== undefined)).toMatchObject({ reason: 'destroyed' })
    await launcher.ask('POST', '/final')
    expect(await launcher.exitCode).toBe(1)
  })

  test('by the kubelet before there is a VM ends the launcher at once', async () => {
    launcher = await startLauncher()
    await launcher.signal('tini', 'SIGTERM')
    expect(await launcher.exitCode).toBe(1)
  })

  test('can be skipped', async () => {
    await started('idle')
    expect(await launcher.ask('POST', '/destroy')).toMatchObject({ status: 202 })
    await launcher.reported('it ended', ({ reason, exit }) => reason === 'destroyed' && exit === 'Failed')
  })
})

describe('a VM that cannot run', () => {
  test('is reported with libvirt’s message, and the launcher exits with 1 when that is read', async () => {
    launcher = await startLauncher()
    const twice = { type: 'file', source: { file: '/x.img' }, target: { dev: 'vda' } }
    const report = await launcher.put(vmWith({ disks: [twice, twice] }))
    expect(report).toMatchObject({ phase: 'Gone', reason: 'defineRefused', exit: 'Failed' })
    expect(report.message).toContain("target 'vda' duplicated")
    await launcher.ask('POST', '/final')
    expect(await launcher.exitCode).toBe(1)
  })

  test('because its iSCSI target does not respond is reported with QEMU’s message', async () => {
    launcher = await startLauncher()
    const source = {
      protocol: 'iscsi',
      name: 'iqn.2017-01.io.kubevirt:sn.42/2',
      host: { name: '127.0.0.1', port: 3260 },
    }
    const remote = {
      type: 'network',
      device: 'disk',
      driver: { name: 'qemu', type: 'raw' },
      source,
      target: { dev: 'vda' },
    }
    const report = await launcher.put(vmWith({ disks: [remote] }))
    expect(report).toMatchObject({ phase: 'Shutoff', reason: 'startFailed', exit: 'Failed' })
    expect(report.message).toMatch(/iSCSI: Failed to connect/)
  })

  test.each([
    ['whose claim is not there', 'gone', 'volume "root": the claim gone is not in the pod'],
    ['whose claim holds no disk', 'empty', 'volume "root": the claim empty has no file disk.img'],
  ])('a VM %s', async (_, claimName, message) => {
    launcher = await startLauncher()
    if (claimName === 'empty') await mkdir(join(launcher.volumes, 'root'))
    const vm = vmWith({ disks: [volumeDisk('root', 'vda')], volumes: [claim(claimName)] })
    expect(await launcher.put(vm)).toMatchObject({
      phase: 'Gone',
      reason: 'volumeUnavailable',
      exit: 'Failed',
      message,
    })
  })
})

describe('the socket of the launcher', () => {
  test('cannot be named by a channel', async () => {
    launcher = await startLauncher()
    const { ino } = await stat(launcher.socket)
    const target = { type: 'virtio', name: '../../../../../../../sockets/launcher.sock' }
    const vm = vmWith({ devices: { channels: [{ type: 'unix', target }] } })
    const answer = await launcher.ask('PUT', '/vm', vm)
    expect(answer).toMatchObject({ status: 400 })
    expect(JSON.stringify(answer.body)).toContain('spec.domain.devices.channels[0].target.name')
    expect((await stat(launcher.socket)).ino).toBe(ino)
    expect(await launcher.pids('qemu-system-x86')).toEqual([])
  })

  test('cannot be replaced by QEMU, although both have the same uid', async () => {
    launcher = await startLauncher()
    const { ino } = await stat(launcher.socket)
    const path = join(launcher.insideSockets, 'launcher.sock')
    const args = ['-chardev', `socket,id=x,path=${path},server=on,wait=off`].map((value) => ({ value }))
    const report = await launcher.put(vmWith({ domain: { qemuCommandline: { args } } }))
    expect(report).toMatchObject({
      phase: 'Shutoff',
      reason: 'startFailed',
      message: expect.stringMatching(/Failed to (?:bind|unlink) socket/),
    })
    expect((await stat(launcher.socket)).ino).toBe(ino)
  })
})

describe('volumes', () => {
  test('an emptyDisk is sparse, cloud-init is a read-only ISO', async () => {
    const vm = await launcherWith('idle')
    for (const name of ['scratch', 'seed']) {
      await mkdir(join(launcher.volumes, name))
      await chown(join(launcher.volumes, name), launcherUid, launcherUid)
    }
    const volumes = [
      claim('root'),
      { name: 'scratch', emptyDisk: { capacity: '1Gi' } },
      { name: 'seed', cloudInit: { userData: '#cloud-config\n' } },
    ]
    const disks = [volumeDisk('root', 'vda'), volumeDisk('scratch', 'vdb'), volumeDisk('seed', 'vdc')]
    await launcher.put({ ...vm, spec: vmWith({ disks, volumes }).spec })
    const scratch = await stat(join(launcher.volumes, 'scratch/disk.img'))
    expect([scratch.size, scratch.blocks]).toEqual([1024 ** 3, 0])
    const iso = join(launcher.volumes, 'seed/cloud-init.iso')
    const { stdout } = await promisify(execFile)('blkid', ['-o', 'value', '-s', 'LABEL', iso]).catch(() => ({
      stdout: '',
    }))
    expect(stdout.trim()).toBe('cidata')
    expect((await readFile(iso)).includes('instance-id: ' + vmUid)).toBe(true)
    const { domain } = await launcher.report()
    expect(JSON.stringify(domain)).toMatch(/cloud-init\.iso.*"readonly":\{\}|"readonly":\{\}.*cloud-init\.iso/)
  })

  test('what the kubelet mounts of Secrets is in an ISO, and nowhere else', async () => {
    const vm = await launcherWith('idle')
    for (const name of ['seed', 'files']) {
      await mkdir(join(launcher.volumes, name))
      await chown(join(launcher.volumes, name), launcherUid, launcherUid)
      // As the kubelet mounts them: links to a folder that is exchanged as a whole.
      await mkdir(join(launcher.sources, name, '..2026'), { recursive: true })
      await symlink('..2026', join(launcher.sources, name, '..data'))
    }
    const mounted = { seed: { 'user-data': 'user-secret' }, files: { '-a.xml': 'xml-secret', b: 'b-secret' } }
    for (const [name, files] of Object.entries(mounted)) {
      for (const [file, text] of Object.entries(files)) {
        await writeFile(join(launcher.sources, name, '..2026', file), text)
        await symlink(`..data/${file}`, join(launcher.sources, name, file))
      }
    }
    const volumes = [
      claim('root'),
      { name: 'seed', cloudInit: { userDataSecretRef: { name: 'vm.web' } } },
      { name: 'files', secret: { secretName: 'vm.sysprep', label: 'SYSPREP' } },
    ]
    const disks = [volumeDisk('root', 'vda'), volumeDisk('seed', 'vdb'), volumeDisk('files', 'vdc')]
    expect(await launcher.put({ ...vm, spec: vmWith({ disks, volumes }).spec })).toMatchObject({ phase: 'Running' })
    const isos = ['seed/cloud-init.iso', 'files/files.iso'].map((path) => join(launcher.volumes, path))
    const contents = await Promise.all(isos.map((path) => readFile(path, 'latin1')))
    for (const text of ['cidata', 'user-secret', 'meta-data', `instance-id: ${vmUid}`])
      expect(contents[0]).toContain(text)
    for (const text of ['SYSPREP', '-a.xml', 'xml-secret', 'b-secret']) expect(contents[1]).toContain(text)
    expect(contents.join('')).not.toContain('..data')
    expect(await readdir(join(launcher.volumes, 'seed'))).toEqual(['cloud-init.iso'])
    expect(JSON.stringify(await launcher.report()) + launcher.log()).not.toContain('-secret')
  })
})

test('a disk that is locked is reported with its claim', async () => {
  const vm = await launcherWith('idle')
  await mkdir(join(launcher.volumes, 'copy'))
  await link(join(launcher.volumes, 'root/disk.img'), join(launcher.volumes, 'copy/disk.img'))
  const volumes = ['root', 'copy'].map((name) => ({ name, persistentVolumeClaim: { claimName: `${name}-claim` } }))
  const { spec } = vmWith({ disks: [volumeDisk('root', 'vda'), volumeDisk('copy', 'vdb')], volumes })
  expect(await launcher.put({ ...vm, spec })).toMatchObject({
    phase: 'Shutoff',
    reason: 'startFailed',
    message: expect.stringMatching(
      /^volume "(?:root|copy)": the disk of the claim "(?:root|copy)-claim" is in use by another VM/,
    ),
  })
})

describe('a session', () => {
  test('reaches the guest’s first serial port, its screen, a picture of that, and its metrics', async () => {
    const graphics = [{ type: 'vnc', sharePolicy: 'ignore', listens: [{ type: 'socket' }] }]
    const videos = [{ model: { type: 'vga' } }]
    const vm = await launcherWith('echo', { graphics, videos })
    await launcher.put(vm)
    const console = await launcher.console()
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    console.write('hello')
    // So it has booted from its disk.
    await eventually('the guest echoes', () => text.includes('hello'))

    const viewer = await launcher.session('/vnc')
    let greeting = ''
    viewer.on('data', (chunk: Buffer) => (greeting += chunk.toString()))
    await eventually('the server greets', () => greeting === 'RFB 003.008\n')
    viewer.destroy()
    const picture = await buffer(await launcher.session('/screenshot'))
    expect([isPng(picture), picture.toString('latin1').endsWith('IEND\u00AEB`\u0082')]).toEqual([true, true])
    const metrics = JSON.parse((await buffer(await launcher.session('/metrics'))).toString())
    expect(metrics).toMatchObject({
      kind: 'VirtualMachineMetrics',
      cpu: { count: 1 },
      memory: { totalBytes: 32 * 1024 * 1024 },
      disks: [{ target: 'vda', writtenBytes: 0 }],
    })
    const { cpu, memory, disks } = metrics
    expect(Math.min(cpu.usageSeconds, memory.residentBytes, disks[0].readBytes, disks[0].reads)).toBeGreaterThan(0)
    // Nothing in the pod listens on a port.
    await expect(launcher.session('/tcp/5900')).rejects.toThrow('refused with 409')

    const ended = new Promise((resolve) => console.once('close', resolve))
    console.write('q')
    await ended
    expect(await launcher.reported('it ended', ({ exit }) => exit !== undefined)).toMatchObject({ exit: 'Succeeded' })
  })

  test('without a VM is refused', async () => {
    launcher = await startLauncher()
    await expect(launcher.console()).rejects.toThrow('refused with 409')
  })
})

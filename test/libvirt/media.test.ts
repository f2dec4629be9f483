import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, readdir, readlink, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { makeOwned } from './rootfs.ts'

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000020'
let launcher: RunningLauncher

/** A VM with this medium in its drive, and the volumes `one` and `two`, which are ISOs. */
function vm(generation: number, source?: { volume?: string }): VirtualMachine {
  const given: VirtualMachine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid, generation },
    spec: {
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 32 },
        os: { type: { os: 'hvm', arch: 'x86_64', machine: 'q35' } },
        devices: {
          disks: [
            {
              type: 'volume',
              device: 'cdrom',
              ...(source === undefined ? {} : { source }),
              target: { dev: 'sda', bus: 'sata' },
            },
          ],
        },
      },
      volumes: ['one', 'two'].map((name) => ({ name, configMap: { name } })),
    },
  }
  const result = complete(given, {
    presets: createCandidates([]),
    namespace: { name: 'default', labels: {} },
    capabilities,
    entropy: { uid },
  })
  if (result.outcome === 'refused') throw new Error(JSON.stringify(result.causes))
  return result.vm
}

beforeEach(async () => {
  launcher = await startLauncher()
  for (const name of ['one', 'two']) {
    await makeOwned(join(launcher.volumes, name))
    await mkdir(join(launcher.sources, name))
    await writeFile(join(launcher.sources, name, 'text'), name)
  }
})
afterEach(() => launcher.stop())

/** What libvirt has in the drive of the running domain: the name of the volume. */
function mediumOf({ domain }: DomainReport): string | undefined {
  const text = JSON.stringify(domain?.['devices'])
  return /volumes\/(\w+)\/files\.iso/.exec(text)?.[1]
}

async function put(generation: number, source?: { volume?: string }): Promise<DomainReport> {
  expect((await launcher.ask('PUT', '/vm', vm(generation, source))).status).toBe(202)
  return launcher.reported(`generation ${generation}`, (report) => report.generation === generation)
}

test('the medium of a running domain is inserted, changed and ejected, also by another libvirtd', async () => {
  const { phase, generation, specDrift } = await launcher.put(vm(1))
  expect({ phase, generation, specDrift }).toEqual({ phase: 'Running', generation: 1, specDrift: [] })
  const seen: unknown[] = []
  for (const [later, source] of [{ volume: 'one' }, { volume: 'two' }, {}].entries()) {
    const report = await put(later + 2, source)
    seen.push([mediumOf(report), report.mediaFailure])
  }
  expect(seen).toEqual([
    ['one', undefined],
    ['two', undefined],
    [undefined, undefined],
  ])
  await launcher.signal('libvirtd', 'SIGKILL')
  expect(mediumOf(await put(5, { volume: 'two' }))).toBe('two')
})

test('a medium that libvirt refuses is reported and tried again', async () => {
  await launcher.put(vm(1, { volume: 'one' }))
  const iso = join(launcher.volumes, 'two/files.iso')
  await rename(iso, `${iso}.away`)
  const refused = await put(2, { volume: 'two' })
  expect(refused).toMatchObject({ phase: 'Running', mediaFailure: expect.stringMatching(/^sda: .*files\.iso/) })
  await rename(`${iso}.away`, iso)
  const inserted = await launcher.reported('it is inserted', ({ mediaFailure }) => mediaFailure === undefined)
  expect(mediumOf(inserted)).toBe('two')
})

/** QEMU's lock "I write" (RAW_LOCK_PERM_BASE in block/file-posix.c, plus 1), as the QEMU of another VM has it. */
const writing = `
  use Fcntl;
  sysopen(my $file, $ARGV[0], O_RDONLY) or die;
  my $lock = pack 's s x4 q q i x4', F_RDLCK, 0, 101, 1, 0;
  fcntl($file, 37, $lock) or die;
  syswrite STDOUT, 'locked';
  sleep 3600;
`

test('a medium that was taken out for one that cannot be opened is inserted again', async () => {
  await launcher.put(vm(1, { volume: 'one' }))
  const other = spawn('perl', ['-e', writing, join(launcher.volumes, 'two/files.iso')])
  try {
    await once(other.stdout, 'data')
    const refused = await put(2, { volume: 'two' })
    expect(refused.mediaFailure).toMatch(/^sda: .*Failed to get shared "write" lock/)
    expect(await openedByQemu()).toEqual([])
    expect(mediumOf(await put(3, { volume: 'one' }))).toBe('one')
    expect(await openedByQemu()).toEqual(['one'])
  } finally {
    other.kill()
  }
})

/** The media that QEMU has open, by the names of their volumes. */
async function openedByQemu(): Promise<string[]> {
  const [pid] = await launcher.pids('qemu-system-x86')
  const fds = `/proc/${pid}/fd`
  const paths = await Promise.all((await readdir(fds)).map((fd) => readlink(join(fds, fd)).catch(() => '')))
  return paths.flatMap((path) => /volumes\/(\w+)\/files\.iso/.exec(path)?.[1] ?? [])
}

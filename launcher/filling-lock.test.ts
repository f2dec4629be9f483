import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { whileFilling } from './filling-lock.ts'

const lock = 'disk.img.filling.unfinished'
const half = 'disk.img.vm-2.unfinished'
const disk = 'disk.img'

let directory: string
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'claim-'))))
afterEach(() => rm(directory, { recursive: true }))

const makeDisk = () => writeFile(join(directory, disk), '')
const names = async () => (await readdir(directory)).toSorted()

/** Another launcher, which has written a part of a disk. */
async function startOther(): Promise<{ kill: () => Promise<void> }> {
  const script = `
    import { writeFile } from 'node:fs/promises'
    import { whileFilling } from ${JSON.stringify(join(import.meta.dirname, 'filling-lock.ts'))}
    await whileFilling(${JSON.stringify(directory)}, false, async () => {
      await writeFile(${JSON.stringify(join(directory, half))}, 'half')
      process.stdout.write('fills')
      await new Promise((resolve) => setTimeout(resolve, 600_000))
    })`
  const launcher: ChildProcess = spawn(process.execPath, ['--input-type=module', '--eval', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(launcher, 'close')
  const kill = async () => {
    launcher.kill('SIGKILL')
    await ended
  }
  onTestFinished(kill)
  if (launcher.stdout !== null) await once(launcher.stdout, 'data')
  return { kill }
}

describe.each([
  ['the first attempt', false],
  ['a retry', true],
])('%s to fill a claim', (_, isRetry) => {
  const fill = (work: () => Promise<unknown> = names) => whileFilling(directory, isRetry, work)

  test('leaves the file of a launcher that is filling it', async () => {
    await startOther()
    expect(await fill()).toEqual([lock, half])
    expect(await names()).toEqual([lock, half])
  })

  test('removes the file of a launcher that was killed', async () => {
    const other = await startOther()
    await other.kill()
    expect(await names()).toEqual([lock, half])
    expect(await fill()).toEqual([lock])
    expect(await names()).toEqual([lock])
  })

  test('removes the file of a launcher that is killed meanwhile', async () => {
    const other = await startOther()
    await fill(other.kill)
    expect(await names()).toEqual([lock])
  })

  test('removes what was left if it fails, too', async () => {
    const failed = fill(async () => {
      await writeFile(join(directory, half), 'half')
      throw new Error('no space')
    })
    await expect(failed).rejects.toThrow('no space')
    expect(await names()).toEqual([lock])
  })

  test('removes the lock when the claim has a disk', async () => {
    await fill(makeDisk)
    expect(await names()).toEqual([disk])
  })
})

test('of several that begin and end together, none removes the file of another', async () => {
  const attempts = Array.from({ length: 8 }, (_, index) =>
    whileFilling(directory, index % 2 === 1, async () => {
      const path = join(directory, `disk.img.vm-${index}.unfinished`)
      await writeFile(path, 'half')
      await new Promise((resolve) => setTimeout(resolve, index * 3))
      expect((await stat(path)).size).toBe(4)
      await rm(path)
    }),
  )
  await Promise.all(attempts)
  expect(await names()).toEqual([lock])
})

test('who removes files may need longer than one attempt waits', async () => {
  const path = join(directory, lock)
  await writeFile(path, '')
  const cleaner = spawn('flock', ['--exclusive', path, 'sh', '-c', 'echo locked; exec sleep 2.5'])
  await once(cleaner.stdout, 'data')
  const other = () => once(spawn('flock', ['--exclusive', '--nonblock', path, 'true']), 'close')
  expect(await whileFilling(directory, false, other)).toEqual([1, null])
})

test('what cannot be removed fails no work that is done', async () => {
  await mkdir(join(directory, half))
  expect(await whileFilling(directory, true, async () => 'done')).toBe('done')
})

const withoutFlock = () => {
  const { PATH } = process.env
  onTestFinished(() => void (process.env['PATH'] = PATH))
  process.env['PATH'] = directory
}

test('where files cannot be locked, a claim that is to be filled can be told from an empty one as well', async () => {
  withoutFlock()
  await whileFilling(directory, false, async () => {})
  expect(await names()).toEqual([lock])
  await whileFilling(directory, true, makeDisk)
  expect(await names()).toEqual([disk])
})

describe.each<[string, () => unknown]>([
  ['without flock', withoutFlock],
  ['with a link in the place of the lock', () => symlink('/dev/null', join(directory, lock))],
])('%s', (_, arrange) => {
  test.each([
    ['the first attempt removes', false, []],
    ['a retry leaves', true, [half]],
  ])('%s what may be the file of another launcher', async (_name, isRetry, left) => {
    await writeFile(join(directory, half), 'half')
    await arrange()
    await whileFilling(directory, isRetry, async () => {})
    expect((await names()).filter((name) => name !== lock)).toEqual(left)
  })
})

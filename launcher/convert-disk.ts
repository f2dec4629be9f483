import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'
import type { Disk } from './disk-format.ts'
import { fixHeader } from './fixed-header.ts'
import { writingToScratch } from './no-space.ts'

/** A disk whose header was examined, or one that is raw whatever it contains. */
export interface ConvertedDisk {
  readonly path: string
  readonly format: Disk['format']
  readonly isDevice: boolean
  readonly bytes: bigint
  /**
   * A file that is needed no more once it was copied, open for reading and writing. Its path can be another file by
   * now: a guest of another VM can share the claim that it is in.
   */
  readonly temporary?: FileHandle
}

interface Part {
  /** In bytes, in source and target alike. */
  readonly offset: number
  /** If absent: to the end of the source. */
  readonly size?: number
}

interface Conversion {
  /** A directory of the launcher's own. */
  readonly scratch: string
  /** Called with each whole per cent. */
  readonly onPercent: (percent: number) => void
}

/**
 * Copies a part of a disk to the same place of a raw file or device, which keeps the rest of its content. Zeros are
 * written too, as holes if the target is a file.
 * @param target a new file, open for writing, or a device
 * @throws Error with qemu-img's own message, and its `stderr` as that of `execFile`
 */
export async function convertDisk(
  source: ConvertedDisk,
  target: FileHandle | { readonly device: string },
  part: Part,
  { scratch, onPercent }: Conversion,
): Promise<void> {
  const input = source.isDevice ? undefined : (source.temporary ?? (await openSource(source.path)))
  let header: string | undefined
  try {
    const file = fileOf(input === undefined ? source.path : inherited(0), source.isDevice)
    if (input !== undefined && source.format === 'qcow2') {
      header = await writingToScratch(scratch, () => fixHeader(input, source, scratch))
    }
    const disk = header === undefined ? { driver: 'raw', file } : qcow2Of(header, file)
    const from = imageOf({ driver: 'raw', ...part, file: disk })
    // `-n`: the target exists. `-t none`: through the page cache, a device that is full is an I/O error like any other,
    // and is not reported to qemu-img. `-W` writes out of order, which is faster: nothing uses the target before it is
    // whole.
    const to =
      'device' in target
        ? ['-n', '-t', 'none', from, imageOf({ driver: 'raw', offset: part.offset, file: fileOf(target.device, true) })]
        : [from, inherited(1)]
    const files = [input?.fd, 'device' in target ? undefined : target.fd]
    await runQemuImg(['convert', '-p', '-O', 'raw', '-W', ...to], files, onPercent)
  } finally {
    if (header !== undefined) await rm(header, { force: true })
    if (source.temporary === undefined) await input?.close()
  }
}

/** A qcow2 disk whose header is read from the image that `fixHeader` made, and what follows from the file. */
const qcow2Of = (header: string, file: object) => ({
  driver: 'qcow2',
  backing: null,
  file: { driver: 'qcow2', file: fileOf(header, false), backing: { driver: 'raw', file } },
})

/** Another writer of the claim cannot make the launcher read another file of the pod, or wait for a pipe. */
async function openSource(path: string): Promise<FileHandle> {
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if ((await file.stat()).isFile()) return file
  await file.close()
  throw new Error(`${path} is not a file`)
}

/** qemu-img opens what its parent has open, whatever has its name by now. */
const inherited = (index: number): string => `/proc/self/fd/${index + 3}`

const fileOf = (path: string, isDevice: boolean) => ({ driver: isDevice ? 'host_device' : 'file', filename: path })

/** As one argument: commas and colons in the path of a hostile image must not be read as options. */
const imageOf = (options: object): string => `json:${JSON.stringify(options)}`

/** Longer messages of qemu-img are truncated. */
const maxErrorLength = 2000

/** @param files the descriptors that it inherits, from 3 on */
function runQemuImg(
  args: readonly string[],
  files: readonly (number | undefined)[],
  onPercent: (percent: number) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const process = spawn('qemu-img', args, { stdio: ['ignore', 'pipe', 'pipe', ...files.map((fd) => fd ?? 'ignore')] })
  let shown = -1
  let errors = ''
  process.stdout?.on('data', (chunk: Buffer) => {
    const percent = Math.floor(Number(/\((\d+(?:\.\d+)?)\/100%\)[^(]*$/.exec(chunk.toString())?.[1] ?? shown))
    if (percent <= shown) return
    shown = percent
    onPercent(percent)
  })
  process.stderr?.on('data', (chunk: Buffer) => (errors = (errors + chunk.toString()).slice(0, maxErrorLength)))
  process.on('error', reject)
  process.on('close', (code, signal) => {
    if (code === 0) resolve()
    else reject(Object.assign(new Error(errors.trim() || `qemu-img ended with ${signal ?? code}`), { stderr: errors }))
  })
  return promise
}

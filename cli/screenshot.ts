import { writeFile } from 'node:fs/promises'
import { isPng, maxScreenshotBytes } from '../runtime/session-api.ts'
import { Usage, exitCodes, fileFailure, type ExitCode } from './failure.ts'
import type { Terminal } from './terminal.ts'
import { refused, sessionPath, vmRef } from './vm-session.ts'
import type { Cluster, World } from './world.ts'

export interface ScreenshotFlags {
  readonly namespace?: string
  readonly output?: string
}

/** The last chunk of a PNG: without data, so it is always the same. */
const pngEnd = Buffer.from('0000000049454e44ae426082', 'hex')

const silentMs = 30_000

/** `kubectl vm screenshot`: writes a picture of the screen of a VM to a file; `-` is standard output. */
export async function takeScreenshot(
  name: string,
  flags: ScreenshotFlags,
  cluster: Cluster,
  world: Pick<World, 'err' | 'isOutTerminal'> & { readonly terminal: Pick<Terminal, 'write'> },
): Promise<ExitCode> {
  const vm = vmRef(name, flags, cluster)
  const { output = `${name}.png` } = flags
  // The node decides what is between the beginning and the end of the picture, such as escape sequences.
  if (output === '-' && world.isOutTerminal === true) {
    throw new Usage('standard output is a terminal: redirect it to a file or a program, or name a file with -o')
  }
  const chunks: Buffer[] = []
  let bytes = 0
  const receive = (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > maxScreenshotBytes) throw new Usage('the screenshot is too large')
    chunks.push(chunk)
    return undefined
  }
  try {
    const { ended } = await cluster.stream(sessionPath(vm, 'screenshot'), { begin: () => {}, receive, silentMs })
    await ended
  } catch (error) {
    if (error instanceof Usage) throw error
    return refused(error, vm, cluster, world)
  }
  const picture = Buffer.concat(chunks)
  if (!isPng(picture) || !picture.subarray(-pngEnd.length).equals(pngEnd)) {
    throw new Usage('the screenshot is incomplete; try again')
  }
  if (output === '-') {
    await world.terminal.write(picture)
    return exitCodes.fine
  }
  await writeFile(output, picture).catch((error: unknown) => {
    throw fileFailure(output, 'written', error)
  })
  world.err(`Wrote ${output}\n`)
  return exitCodes.fine
}

import type { Duplex } from 'node:stream'
import { Connection } from '../launcher/libvirt/connection.ts'
import { listDomains, readXml } from '../launcher/libvirt/domain.ts'
import { systemClock } from '../runtime/clock.ts'
import { Usage, codeOf, errorText } from './failure.ts'
import type { Input } from './input.ts'
import type { World } from './world.ts'

type Reader = Parameters<typeof listDomains>[0]

/**
 * The domains of a libvirt daemon of this machine as Domain XML, running or not, as they are defined (what only a running domain has is no wish of anybody).
 * @throws Usage where no daemon answers
 */
export async function* readRunningDomains(
  { from = 'qemu:///system', socket }: { readonly from?: string; readonly socket?: string },
  { dial, environment, err }: Pick<World, 'dial' | 'environment' | 'err'>,
): AsyncGenerator<Input> {
  const { stream, path } = await dialFirst(socket === undefined ? socketsOf(from, environment) : [socket], dial)
  const connection = new Connection(stream, { clock: systemClock })
  try {
    await connection.open(from)
    const reader: Reader = { read: (name, args, deadlineMs) => connection.call(name, args, deadlineMs) }
    const domains = await listDomains(reader)
    if (domains.length === 0) err(`the libvirt daemon at ${path} has no domains\n`)
    for (const domain of domains) {
      const xml = await readXml(reader, domain, { inactive: true })
      // One that went meanwhile is no longer wanted.
      if (xml !== undefined)
        yield { file: `${from} ${domain.name}`, stem: domain.name, kind: 'xml', xml: Buffer.from(xml) }
    }
  } catch (error) {
    throw new Usage(`the libvirt daemon at ${path}: ${errorText(error)}`, { cause: error })
  } finally {
    connection.close()
  }
}

/** Where libvirt listens for a URI, as its documentation of URIs and daemons has it: one daemon for all, or one for QEMU. */
function socketsOf(uri: string, environment: World['environment']): readonly string[] {
  const names = ['libvirt-sock', 'virtqemud-sock']
  if (uri === 'qemu:///system') return names.map((name) => `/run/libvirt/${name}`)
  if (uri !== 'qemu:///session') throw new Usage(`--from ${uri}: qemu:///system and qemu:///session are known`)
  const runtime = environment['XDG_RUNTIME_DIR'] ?? `${environment['HOME'] ?? ''}/.cache`
  return names.map((name) => `${runtime}/libvirt/${name}`)
}

async function dialFirst(
  paths: readonly string[],
  dial: World['dial'],
): Promise<{ readonly stream: Duplex; readonly path: string }> {
  const failures: string[] = []
  for (const path of paths) {
    try {
      return { stream: await dial(path), path }
    } catch (error) {
      if (codeOf(error) === 'EACCES')
        throw new Usage(`${path} may not be opened: that is for root and the group libvirt`, { cause: error })
      failures.push(codeOf(error) === 'ENOENT' ? `${path}: nothing is there` : `${path}: ${errorText(error)}`)
    }
  }
  throw new Usage(`no libvirt daemon answers; --socket PATH says where one does\n${failures.join('\n')}`)
}

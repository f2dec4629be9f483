import type { Duplex } from 'node:stream'
import { Connection } from '../launcher/libvirt/connection.ts'
import { listDomains, readXml } from '../launcher/libvirt/domain.ts'
import { systemClock } from '../runtime/clock.ts'
import { Usage, codeOf, errorText } from './failure.ts'
import type { Input } from './input.ts'
import type { World } from './world.ts'

type Reader = Parameters<typeof listDomains>[0]

/**
 * The domains of a local libvirt daemon as Domain XML, whether running or not: the persistent definitions, without the
 * state of a running domain.
 * @throws Usage if no daemon responds
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
      // Undefined if the domain was deleted after it was listed.
      if (xml !== undefined)
        yield { file: `${from} ${domain.name}`, stem: domain.name, kind: 'xml', xml: Buffer.from(xml) }
    }
  } catch (error) {
    throw new Usage(`the libvirt daemon at ${path}: ${errorText(error)}`, { cause: error })
  } finally {
    connection.close()
  }
}

/** The sockets that libvirt documents for a URI: those of libvirtd and of virtqemud. */
function socketsOf(uri: string, environment: World['environment']): readonly string[] {
  const names = ['libvirt-sock', 'virtqemud-sock']
  if (uri === 'qemu:///system') return names.map((name) => `/run/libvirt/${name}`)
  if (uri !== 'qemu:///session') throw new Usage(`--from ${uri}: must be qemu:///system or qemu:///session`)
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
        throw new Usage(`${path}: permission denied; only root and the group libvirt may open it`, { cause: error })
      failures.push(codeOf(error) === 'ENOENT' ? `${path}: does not exist` : `${path}: ${errorText(error)}`)
    }
  }
  throw new Usage(`no libvirt daemon responds (${failures.join('; ')}); use --socket PATH for another socket`)
}

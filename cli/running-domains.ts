import { Connection } from '../launcher/libvirt/connection.ts'
import { listDomains, readXml } from '../launcher/libvirt/domain.ts'
import { systemClock } from '../runtime/clock.ts'
import { Usage, errorText } from './failure.ts'
import type { Input } from './input.ts'
import type { World } from './world.ts'

type Reader = Parameters<typeof listDomains>[0]

/**
 * The domains of a libvirt daemon of this machine as Domain XML, as they are defined (what only a running domain has is no wish of anybody).
 * @throws Usage where no daemon answers
 */
export async function* readRunningDomains(
  { from = 'qemu:///system', socket }: { readonly from?: string; readonly socket?: string },
  { dial, environment }: Pick<World, 'dial' | 'environment'>,
): AsyncGenerator<Input> {
  const path = socket ?? socketOf(from, environment)
  const stream = await dial(path).catch((error: unknown) => {
    throw new Usage(`no libvirt daemon answers at ${path}: ${errorText(error)}; --socket PATH says where it is`, {
      cause: error,
    })
  })
  const connection = new Connection(stream, { clock: systemClock })
  try {
    await connection.open(from)
    const reader: Reader = { read: (name, args, deadlineMs) => connection.call(name, args, deadlineMs) }
    for (const domain of await listDomains(reader)) {
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

/** Where libvirt listens for a URI, as its documentation of URIs and of the daemons has it. */
function socketOf(uri: string, environment: World['environment']): string {
  if (uri === 'qemu:///system') return '/run/libvirt/libvirt-sock'
  if (uri !== 'qemu:///session') throw new Usage(`--from ${uri}: qemu:///system and qemu:///session are known`)
  const runtime = environment['XDG_RUNTIME_DIR'] ?? `${environment['HOME'] ?? ''}/.cache`
  return `${runtime}/libvirt/libvirt-sock`
}

import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join, resolve } from 'node:path'

/**
 * Runs a plugin of virtset as the network agent does.
 * @param namespace the name of the network namespace that is the pod's
 * @returns what it prints: its result, or its error
 */
export function runPlugin(
  name: 'routed' | 'nat' | 'redirect',
  command: 'ADD' | 'CHECK' | 'DEL',
  namespace: string,
  request: object,
): string {
  const network = openSync(join('/var/run/netns', namespace), 'r')
  const main = resolve(import.meta.dirname, '../../handler/network', name, 'main.ts')
  const { stdout, stderr } = spawnSync(process.execPath, [main], {
    input: JSON.stringify({ ...request, netns: '/proc/self/fd/3' }),
    encoding: 'utf8',
    env: { ...process.env, VIRTSET_COMMAND: command },
    stdio: ['pipe', 'pipe', 'pipe', network],
  })
  closeSync(network)
  return stdout.trim() || stderr.trim()
}

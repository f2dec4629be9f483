import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { join } from 'node:path'

/**
 * Runs a plugin of virtset as the network agent does.
 * @param namespace the name of the network namespace that is the pod's
 * @returns its result, or its error
 */
export function runPlugin(
  name: 'routed' | 'nat' | 'redirect',
  command: 'ADD' | 'CHECK' | 'DEL',
  namespace: string,
  request: object,
): string {
  const network = openSync(join('/var/run/netns', namespace), 'r')
  const { stdout, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, 'network-plugin-main.ts')], {
    input: JSON.stringify({ ...request, plugin: name }),
    encoding: 'utf8',
    env: { ...process.env, VIRTSET_COMMAND: command },
    stdio: ['pipe', 'pipe', 'pipe', network],
  })
  closeSync(network)
  return stdout.trim() || stderr.trim()
}

import { readFileSync } from 'node:fs'
import { podPrograms } from '../../handler/network/built-in.ts'
import { nat } from '../../handler/network/nat/plugin.ts'
import { redirect } from '../../handler/network/redirect/plugin.ts'
import { routed } from '../../handler/network/routed/plugin.ts'
import { systemClock } from '../../runtime/clock.ts'
import { parseNetworkRequest } from '../../runtime/network-api.ts'

/** A plugin of virtset on the network that this process inherits as descriptor 3. Prints its result. */
const request = parseNetworkRequest(JSON.parse(readFileSync(0, 'utf8')))
const plugin = new Map([
  ['routed', routed],
  ['nat', nat],
  ['redirect', redirect],
]).get(request.plugin)
const pod = podPrograms(3, new AbortController().signal, systemClock)
const commands = { ADD: plugin?.add, CHECK: plugin?.check, DEL: plugin?.del }
const command = Object.entries(commands).find(([name]) => name === process.env['VIRTSET_COMMAND'])?.[1]
if (command === undefined) throw new Error('no such plugin or command')
try {
  process.stdout.write(JSON.stringify((await command(request, pod)) ?? {}))
} catch (error) {
  process.stderr.write(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
}

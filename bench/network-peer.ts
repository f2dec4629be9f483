import { createServer, get } from 'node:http'
import { connect, createServer as createTcpServer } from 'node:net'
import { runIperf, serveIperf, type Transfer } from './iperf.ts'

/**
 * Runs in pods, for `bench/network.ts`:
 *
 *     node network-peer.ts            on the other node: gives jobs to guests, measures, and reports to the benchmark
 *     node network-peer.ts ADDRESS    beside the guests: does the jobs that the client there gives, as the baseline
 */
const [, , client] = process.argv
const controlPort = 8000
const echoPort = 7007
const webPort = 80

interface Measurement {
  /** The guest, or `pod`. */
  readonly of: string
  readonly kind: 'from' | 'to' | 'echo' | 'requests'
  readonly address: string
  readonly seconds: number
  /** Of the kind `requests`: this many, instead of those of some seconds. */
  readonly connections: number
}

const median = (values: readonly number[]): number =>
  values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? Number.NaN

function serveClient(): void {
  const jobs = new Map<string, (job: string) => void>()
  /** Waits for a guest, which asks again after each job. */
  const give = async (to: string, job: string) => {
    const endMs = Date.now() + 60_000
    while (!jobs.has(to)) {
      if (Date.now() > endMs) throw new Error(`${to} asks for no job`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    jobs.get(to)?.(job)
    jobs.delete(to)
  }
  let onTransfer: ((transfer: Transfer) => void) | undefined
  serveIperf((transfer) => onTransfer?.(transfer))
  let onFailure: ((error: Error) => void) | undefined
  let onEcho: ((ms: readonly number[]) => void) | undefined
  createTcpServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {})
    const times: number[] = []
    let sentMs = performance.now()
    const send = () => {
      sentMs = performance.now()
      socket.write('x')
    }
    const endMs = sentMs + 4000
    socket.on('data', () => {
      times.push(performance.now() - sentMs)
      if (performance.now() < endMs) return send()
      socket.destroy()
      onEcho?.(times)
    })
    send()
  }).listen(echoPort)

  const request = (address: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const startedMs = performance.now()
      get({ host: address, port: webPort, path: '/small', agent: false, timeout: 10_000 }, (response) => {
        response.resume().on('end', () => resolve(performance.now() - startedMs))
      }).on('error', reject)
    })

  const measure = async ({ of, kind, address, seconds, connections }: Measurement): Promise<object> => {
    if (kind === 'requests') {
      const endMs = performance.now() + seconds * 1000
      let left = connections
      const times: number[] = []
      const startedMs = performance.now()
      const one = async () => {
        while (connections > 0 ? left-- > 0 : performance.now() < endMs) times.push(await request(address))
      }
      await Promise.all([one(), one(), one(), one()])
      return { perSecond: times.length / ((performance.now() - startedMs) / 1000), p50Ms: median(times) }
    }
    if (kind === 'echo') {
      const echoed = new Promise<readonly number[]>((resolve) => (onEcho = resolve))
      await give(of, 'echo 0')
      return { p50Ms: median((await echoed).slice(5)) }
    }
    const transferred = new Promise<Transfer>((resolve, reject) => {
      onTransfer = resolve
      onFailure = reject
    })
    transferred.catch(() => {})
    await give(of, `${kind} ${seconds}`)
    return transferred
  }

  const control = createServer((incoming, response) => {
    const url = new URL(incoming.url ?? '/', 'http://peer')
    const [, what = '', of = ''] = url.pathname.split('/')
    if (what === 'job') return void jobs.set(of, (job) => response.end(`${job}\n`))
    if (what === 'failed') {
      incoming.on('data', (text) => onFailure?.(new Error(`the job of ${of} failed: ${text}`)))
      return void incoming.on('end', () => response.end())
    }
    if (what === 'waiting') return void response.end(JSON.stringify([...jobs.keys()]))
    const { kind, address = '', seconds, connections } = Object.fromEntries(url.searchParams)
    measure({
      of,
      kind: kind as Measurement['kind'],
      address,
      seconds: Number(seconds),
      connections: Number(connections),
    })
      .then((result) => response.end(JSON.stringify(result)))
      .catch((error: unknown) => response.writeHead(500).end(String(error)))
  })
  control.requestTimeout = 0
  control.listen(controlPort)
}

async function doJobs(client: string): Promise<void> {
  createServer((_, response) => response.end('x'.repeat(64))).listen(webPort)
  for (;;) {
    try {
      const response = await fetch(`http://${client}:${controlPort}/job/pod`)
      const [kind, seconds] = (await response.text()).trim().split(' ')
      if (kind === 'echo') {
        const socket = connect({ host: client, port: echoPort, noDelay: true })
        socket.on('error', () => {})
        socket.pipe(socket)
        await new Promise((resolve) => socket.on('close', resolve))
      } else await runIperf(client, Number(seconds), kind === 'to')
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 500))
    }
  }
}

if (client === undefined) serveClient()
else await doJobs(client)

import { connect, createServer, type Socket } from 'node:net'

/**
 * Both ends of a test of iperf3 with one TCP stream, as far as the client of the guest needs it. It runs in pods, whose
 * images do not have iperf3, so that the same program is at the other end of pods and guests.
 *
 * The protocol: the client opens a control connection and sends a cookie; the server then decides each next state with
 * one byte, and JSON with its length before it goes both ways. A stream begins with the same cookie.
 */
const state = {
  testStart: 1,
  testRunning: 2,
  testEnd: 4,
  parameters: 9,
  createStreams: 10,
  results: 13,
  displayResults: 14,
  done: 16,
}
const cookieBytes = 37
export const iperfPort = 5201
const block = Buffer.alloc(128 * 1024)

export interface Transfer {
  readonly bytes: number
  readonly seconds: number
}

/** Reads exact numbers of bytes; what follows them remains for the next read. */
function readerOf(socket: Socket): (bytes: number) => Promise<Buffer> {
  let held = Buffer.alloc(0)
  let wake = () => {}
  let hasEnded = false
  socket.on('data', (chunk) => {
    held = Buffer.concat([held, chunk])
    wake()
  })
  socket.on('close', () => {
    hasEnded = true
    wake()
  })
  return async (bytes) => {
    while (held.length < bytes) {
      if (hasEnded) throw new Error('the control connection has ended')
      await new Promise<void>((resolve) => (wake = resolve))
    }
    const read = held.subarray(0, bytes)
    held = held.subarray(bytes)
    return read
  }
}

async function readJson(read: (bytes: number) => Promise<Buffer>) {
  const length = (await read(4)).readUInt32BE()
  return JSON.parse((await read(length)).toString())
}

function writeJson(socket: Socket, value: object): void {
  const text = Buffer.from(JSON.stringify(value))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(text.length)
  socket.write(Buffer.concat([length, text]))
}

const say = (socket: Socket, byte: number) => socket.write(Buffer.of(byte))

function resultsOf(bytes: number, seconds: number): object {
  const stream = { id: 1, bytes, retransmits: -1, jitter: 0, errors: 0, packets: 0, start_time: 0, end_time: seconds }
  const cpu = { cpu_util_total: 0, cpu_util_user: 0, cpu_util_system: 0 }
  return { ...cpu, sender_has_retransmits: 0, streams: [stream] }
}

/** Sends until the socket is destroyed. */
function pour(socket: Socket): void {
  const more = () => {
    while (!socket.destroyed && socket.write(block));
  }
  socket.on('drain', more)
  more()
}

/** What the receiver has received, for each test. */
export function serveIperf(onTransfer: (transfer: Transfer) => void): void {
  const streams = new Map<string, (stream: Socket) => void>()
  const serve = async (socket: Socket): Promise<void> => {
    // A stream has the cookie of its control connection before its data, which no other client must take.
    const first = await new Promise<Buffer>((resolve) => {
      const read = () => {
        const found: Buffer | null = socket.read(cookieBytes)
        if (found !== null) resolve((socket.off('readable', read), found))
      }
      socket.on('readable', read)
    })
    const cookie = first.toString('latin1')
    const open = streams.get(cookie)
    if (open !== undefined) return open(socket)
    const opened = new Promise<Socket>((resolve) => streams.set(cookie, resolve))
    const read = readerOf(socket)
    say(socket, state.parameters)
    const { reverse } = await readJson(read)
    say(socket, state.createStreams)
    const stream = await opened
    streams.delete(cookie)
    let bytes = 0
    const startedMs = performance.now()
    if (reverse !== true) stream.on('data', (chunk) => (bytes += chunk.length))
    say(socket, state.testStart)
    say(socket, state.testRunning)
    if (reverse === true) pour(stream)
    while ((await read(1))[0] !== state.testEnd);
    const seconds = (performance.now() - startedMs) / 1000
    const received = bytes
    say(socket, state.results)
    const [theirs] = (await readJson(read)).streams
    writeJson(socket, resultsOf(received, seconds))
    stream.destroy()
    say(socket, state.displayResults)
    onTransfer(reverse === true ? { bytes: theirs.bytes, seconds: theirs.end_time } : { bytes: received, seconds })
    await read(1).catch(() => {})
    socket.destroy()
  }
  const server = createServer({ noDelay: true }, (socket) => {
    socket.on('error', () => {})
    serve(socket).catch(() => socket.destroy())
  })
  server.listen(iperfPort)
}

/** The client: what iperf3 does in the guest. */
export async function runIperf(host: string, seconds: number, isReverse: boolean): Promise<void> {
  const cookie = Buffer.from(`${crypto.randomUUID()}\0`)
  const open = () => {
    const socket = connect(iperfPort, host)
    socket.on('error', () => {})
    socket.write(cookie)
    return socket
  }
  const control = open()
  const read = readerOf(control)
  let stream: Socket | undefined
  let [bytes, startedMs] = [0, 0]
  for (;;) {
    const [next] = await read(1)
    if (next === state.parameters) {
      const parameters = { tcp: true, omit: 0, time: seconds, parallel: 1, len: block.length, client_version: '3.18' }
      writeJson(control, { ...parameters, ...(isReverse ? { reverse: true } : {}) })
    }
    if (next === state.createStreams) stream = open()
    if (next === state.testRunning && stream !== undefined) {
      startedMs = performance.now()
      if (isReverse) stream.on('data', (chunk) => (bytes += chunk.length))
      else pour(stream)
      setTimeout(() => say(control, state.testEnd), seconds * 1000)
    }
    if (next === state.results) {
      const received = bytes
      writeJson(control, resultsOf(received, (performance.now() - startedMs) / 1000))
      await readJson(read)
    }
    if (next === state.displayResults) break
  }
  say(control, state.done)
  stream?.destroy()
  control.end()
}

import { once } from 'node:events'
import { createServer, request, type IncomingMessage } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { gzipSync } from 'node:zlib'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { Usage } from './failure.ts'
import { serveUi } from './ui-server.ts'

/** The API server can be one of several behind a proxy. */
const folder = '/k8s/clusters/c-x'

/** An API server that returns what it received, echoes on WebSockets, and refuses those of `/refused`. */
const api = createServer((incoming, response) => {
  if (incoming.url === `${folder}/api/v1/large`) {
    response.writeHead(200, { 'content-encoding': 'gzip', 'set-cookie': 'x=y' }).end(gzipSync('large'))
    return
  }
  if (incoming.url === `${folder}/api/v1/hang`) return
  if (incoming.url === `${folder}/api/v1/stall`) {
    response.writeHead(200, { 'content-length': 1000 }).write('abc')
    return
  }
  if (incoming.url?.endsWith('/proxy/x.js') === true) {
    response.writeHead(200, { 'content-type': 'text/javascript' }).end('steal()')
    return
  }
  void text(incoming).then((body) => {
    const { method, url, headers } = incoming
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ method, url, headers, body }))
  })
})
const echo = new WebSocketServer({ noServer: true })
api.on('upgrade', (incoming, socket, head) => {
  if (incoming.url?.includes('hang')) return
  if (incoming.url?.includes('half')) {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n')
    return
  }
  if (incoming.url?.includes('refused')) {
    const body = JSON.stringify({ message: `the VM is not running ${'…'.repeat(100)}` })
    socket.end(`HTTP/1.1 409 Conflict\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    return
  }
  echo.handleUpgrade(incoming, socket, head, (opened) => {
    opened.send(JSON.stringify({ ...incoming.headers, url: incoming.url }))
    opened.on('message', (data) => opened.send(data))
  })
})

let ui: Awaited<ReturnType<typeof serveUi>>
let [host, cookie] = ['', '']
beforeAll(async () => {
  await once(api.listen(0, '127.0.0.1'), 'listening')
  const server = `http://127.0.0.1:${(api.address() as AddressInfo).port}${folder}`
  ui = await serveUi({
    access: { server, prove: async () => ({ headers: { authorization: 'Bearer of-the-user' }, tls: {} }) },
    page: new Map([
      ['index.html', Buffer.from('<!doctype html>')],
      ['page.js', Buffer.from('export {}')],
    ]),
    port: 0,
    secret: 'secret',
    link: 'once',
    root: 'folder',
    answers: {
      '/explain': async (query) => {
        if (query.get('name') === 'nothing') throw new Usage('there is no such VM')
        return { name: query.get('name') }
      },
    },
    readers: {
      '/impact': async (given) => {
        if (given === '') throw new Usage('the text is empty')
        return { read: given }
      },
    },
  })
  host = new URL(ui.link).host
})
afterAll(() => {
  ui.close()
  echo.close()
  api.close()
})

type Headers = Record<string, string>

/** Everything is in the folder, except what a test puts elsewhere. */
const below = (path: string): string => (path.startsWith('/elsewhere') ? path : `/folder${path}`)

const ask = async (path: string, headers: Headers = {}, method = 'GET', body = '') => {
  const [, port] = host.split(':')
  const all = { host, ...(cookie === '' ? {} : { cookie }), ...headers }
  const outgoing = request({ host: '127.0.0.1', port, path: below(path), method, headers: all }).end(body)
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode, headers: response.headers, body: await text(response) }
}

const upgrade = async (path: string, headers: Headers = {}) => {
  const socket = new WebSocket(`ws://${host}${below(path)}`, { headers: { host, cookie, ...headers } })
  // The first message can arrive with the upgrade.
  const first = once(socket, 'message').catch(() => [])
  const closed = once(socket, 'close').catch(() => [])
  const opened = await Promise.race([
    once(socket, 'open').then(() => 101),
    once(socket, 'unexpected-response').then(([, response]: { statusCode?: number }[]) => response?.statusCode),
  ])
  return { opened, socket, first, closed }
}

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'

describe('before the link was used', () => {
  test.each([
    ['another user of this host', '/', {}, 401],
    ['another user of this host, at the API', vms, {}, 401],
    ['a wrong cookie', '/', { cookie: 'virtset=secreT' }, 401],
    ['a cookie of another length', '/', { cookie: 'virtset=s' }, 401],
    ['a wrong link', '/login?once=nothing', {}, 401],
    ['the link by another name, as after DNS rebinding', '/login?once=once', { host: 'attacker.example' }, 403],
    ['the link of a foreign page', '/login?once=once', { 'sec-fetch-site': 'cross-site' }, 403],
  ])('%s is refused', async (_, path, headers: Headers, status) => {
    expect((await ask(path, headers)).status).toBe(status)
  })

  test('the link works once, and its cookie is invisible to code, to other sites and to other ports', async () => {
    const { status, headers } = await ask('/login?once=once', { 'sec-fetch-site': 'none' })
    expect([status, headers.location, headers['set-cookie']]).toEqual([
      303,
      '/folder/',
      // Browsers send a cookie to every port of a host: the server of another user does not know the folder.
      ['virtset=secret; HttpOnly; SameSite=Strict; Path=/folder/'],
    ])
    expect((await ask('/login?once=once')).status).toBe(401)
    cookie = 'other=1; virtset=secret'
  })
})

describe('with the cookie', () => {
  const own = () => ({ origin: `http://${host}`, 'sec-fetch-site': 'same-origin' })
  const attacks: [string, Headers][] = [
    ['a name that resolves to this host (DNS rebinding)', { host: 'attacker.example' }],
    ['that name with the port', { host: 'attacker.example:80' }],
    ['a name without the port', { host: 'localhost' }],
    ['a page of another origin', { origin: 'https://attacker.example' }],
    ['a page without an origin, such as a sandboxed frame', { origin: 'null' }],
    ['a page of another server on this host', { origin: 'http://127.0.0.1:1' }],
    ['the same, where the browser sends only the site', { 'sec-fetch-site': 'same-site' }],
    ['a request of another site without an origin', { 'sec-fetch-site': 'cross-site' }],
  ]

  test.each(attacks)('%s can read nothing', async (_, headers) => {
    expect((await ask(vms, headers)).status).toBe(403)
  })

  test.each(attacks)('%s can change nothing', async (_, headers) => {
    expect((await ask(`${vms}/web/start`, headers, 'POST', '{}')).status).toBe(403)
  })

  test.each(attacks)('%s can have no text read', async (_, headers) => {
    const answer = await ask('/impact', { 'content-type': 'application/yaml', ...headers }, 'POST', 'kind: a')
    expect(answer.status).toBe(403)
  })

  test.each(attacks)('%s can open no WebSocket', async (_, headers) => {
    expect((await upgrade(`${vms}/web/attach/console`, headers)).opened).toBe(403)
  })

  test('an upgrade without the cookie, or elsewhere, is refused', async () => {
    expect((await upgrade(vms, { cookie: '' })).opened).toBe(401)
    expect((await upgrade('/explain')).opened).toBe(404)
  })

  test('only the page itself runs code, and nothing is stored or embedded', async () => {
    const { status, headers, body } = await ask('/')
    expect([status, body]).toEqual([200, '<!doctype html>'])
    expect(headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cache-control': 'no-store',
      'cross-origin-resource-policy': 'same-origin',
      'cross-origin-opener-policy': 'same-origin',
    })
    const policy = String(headers['content-security-policy'])
    const directive = (name: string) => policy.split('; ').find((one) => one.startsWith(`${name} `))
    expect(['default-src', 'script-src', 'connect-src', 'frame-ancestors'].map(directive)).toEqual([
      "default-src 'none'",
      "script-src 'self'",
      "connect-src 'self'",
      "frame-ancestors 'none'",
    ])
  })

  test('a request reaches the API server with the identity of the user alone', async () => {
    const { body } = await ask(
      `${vms}?limit=1`,
      {
        ...own(),
        accept: 'application/json',
        'content-type': 'application/json',
        authorization: 'Bearer other',
        'impersonate-user': 'root',
        'x-remote-user': 'root',
        referer: 'x',
      },
      'POST',
      '{"a":1}',
    )
    const received = JSON.parse(body)
    expect(received).toMatchObject({ method: 'POST', url: `${folder}${vms}?limit=1`, body: '{"a":1}' })
    const { host: _, connection: __, 'content-length': ___, 'transfer-encoding': ____, ...rest } = received.headers
    expect(rest).toEqual({
      accept: 'application/json',
      'content-type': 'application/json',
      authorization: 'Bearer of-the-user',
      'user-agent': 'kubectl-vm',
    })
  })

  test('what the API server passes on from pods is neither a page nor code of this origin', async () => {
    const { headers } = await ask('/api/v1/namespaces/a/pods/hostile/proxy/x.js')
    expect(headers).toMatchObject({
      'content-type': 'text/plain; charset=utf-8',
      'x-content-type-options': 'nosniff',
      'content-security-policy': "sandbox; default-src 'none'; frame-ancestors 'none'",
    })
  })

  test('a compressed response keeps its encoding, and sets no cookie', async () => {
    const [, port] = host.split(':')
    const outgoing = request({ host: '127.0.0.1', port, path: below('/api/v1/large'), headers: { host, cookie } }).end()
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    expect([response.headers['content-encoding'], response.headers['set-cookie']]).toEqual(['gzip', undefined])
    response.resume()
  })

  test.each([
    '/metrics',
    '/apis',
    '/openapi/v2',
    '/api/%2e%2e/metrics',
    '/api/../metrics',
    '/../api/v1/nodes',
    '/elsewhere/../api/v1/nodes',
    '/elsewhere',
    '//api/v1',
    '/page.css',
    '/__proto__',
  ])('%s is not passed on', async (path) => {
    expect((await ask(path)).status).toBe(404)
  })

  test('a WebSocket carries bytes both ways, with the identity of the user', async () => {
    const { opened, socket, first } = await upgrade(`${vms}?watch=1&as=Table`, own())
    expect(opened).toBe(101)
    const headers = JSON.parse(String((await first)[0]))
    expect(headers).toMatchObject({
      url: `${folder}${vms}?watch=1&as=Table`,
      origin: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
      authorization: 'Bearer of-the-user',
      accept: expect.stringContaining('as=Table'),
    })
    expect(headers.cookie).toBe(undefined)
    socket.send('hello')
    expect(String((await once(socket, 'message'))[0])).toBe('hello')
    socket.close(1000)
  })

  test('a refused WebSocket is closed with the status and the message', async () => {
    const { opened, closed } = await upgrade(`${vms}/refused`, own())
    const [code, reason] = await closed
    expect([opened, code]).toEqual([101, 4409])
    expect(String(reason)).toMatch(/^the VM is not running …+$/)
  })

  test('answers are JSON; a mistake of the user is one sentence', async () => {
    expect(await ask('/explain?name=web')).toMatchObject({ status: 200, body: '{"name":"web"}' })
    expect(await ask('/explain?name=nothing')).toMatchObject({
      status: 422,
      body: '{"message":"there is no such VM"}',
    })
  })

  const yaml = { 'content-type': 'application/yaml' }
  test.each<[string, Headers, string, string, number, string]>([
    ['a text', yaml, 'POST', 'kind: é', 200, '{"read":"kind: é"}'],
    ['a mistake of the user', yaml, 'POST', '', 422, '{"message":"the text is empty"}'],
    ['a form, which other sites can send without asking', { 'content-type': 'text/plain' }, 'POST', 'a', 415, ''],
    ['another method', yaml, 'GET', '', 405, ''],
    ['a text that is too large', yaml, 'POST', 'x'.repeat(2 ** 21), 413, ''],
  ])('reading %s', async (_, headers, method, body, status, answer) => {
    const found = await ask('/impact', { ...own(), ...headers }, method, body)
    expect([found.status, found.body]).toEqual([status, expect.stringContaining(answer)])
  })

  test('nothing is read without the cookie', async () => {
    expect((await ask('/impact', { ...own(), ...yaml, cookie: '' }, 'POST', 'kind: a')).status).toBe(401)
  })

  describe('no connection is kept for ever:', () => {
    const hangs = async () => {
      const [incoming] = (await once(api, 'request')) as [IncomingMessage]
      return once(incoming.socket, 'close')
    }
    const withoutWaiting = () => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    afterEach(() => void vi.useRealTimers())

    test('a request to which nothing responds', async () => {
      withoutWaiting()
      const asked = once(api, 'request')
      const answer = ask('/api/v1/hang')
      await asked
      vi.advanceTimersByTime(35_000)
      const { status, body } = await answer
      expect([status, body]).toEqual([502, expect.stringContaining('no response within 35 s')])
    })

    test('a response that goes silent', async () => {
      const [, port] = host.split(':')
      withoutWaiting()
      const path = below('/api/v1/stall')
      const outgoing = request({ host: '127.0.0.1', port, path, headers: { host, cookie } }).end()
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      vi.advanceTimersByTime(35_000)
      await expect(text(response)).rejects.toThrow('aborted')
    })

    test('a request whose browser has left', async () => {
      const [, port] = host.split(':')
      const hanging = hangs()
      const asked = once(api, 'request')
      const path = below('/api/v1/hang')
      const outgoing = request({ host: '127.0.0.1', port, path, headers: { host, cookie } }).end()
      outgoing.on('error', () => {})
      await asked
      outgoing.destroy()
      await expect(hanging).resolves.toBeDefined()
    })

    test('a WebSocket to which nothing responds', async () => {
      withoutWaiting()
      const asked = once(api, 'upgrade')
      const opening = upgrade(`${vms}/hang`, own())
      await asked
      vi.advanceTimersByTime(35_000)
      const [code, reason] = await (await opening).closed
      expect([code, String(reason)]).toEqual([4502, expect.stringContaining('no response within 35 s')])
    })

    const raw = (path: string, more: string) => {
      const [, port] = host.split(':')
      const socket = connect({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true }).on('error', () => {})
      const key = 'sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=='
      const start = `GET ${below(path)} HTTP/1.1\r\nhost: ${host}\r\n${more}`
      socket.write(`${start}connection: Upgrade\r\nupgrade: websocket\r\n${key}\r\n\r\n`)
      return socket
    }

    test('a WebSocket of which only the browser has ended', async () => {
      withoutWaiting()
      const upgraded = once(api, 'upgrade')
      const socket = raw(`${vms}/half`, `cookie: ${cookie}\r\n`)
      const [, cluster] = (await upgraded) as [unknown, Socket]
      await once(socket, 'data')
      socket.end()
      await once(cluster.resume(), 'end')
      vi.advanceTimersByTime(10_000)
      await expect(once(socket, 'end')).resolves.toEqual([])
      cluster.destroy()
    })

    test('a refused upgrade of a client that does not end', async () => {
      const socket = raw('/elsewhere', '')
      await once(socket.resume(), 'end')
      // Written to a connection that is closed, it is reset.
      const timer = setInterval(() => socket.write('x'), 10)
      await new Promise((resolve) => socket.once('close', resolve))
      clearInterval(timer)
      expect(socket.destroyed).toBe(true)
    })
  })

  test('only 127.0.0.1 is served', async () => {
    const [, port] = host.split(':')
    const socket = connect(Number(port), '127.0.0.2')
    const [error] = await once(socket, 'error')
    expect(error).toMatchObject({ code: 'ECONNREFUSED' })
  })
})

import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Client } from '../launcher/libvirt/client.ts'
import type { LibvirtEvent } from '../launcher/libvirt/connection.ts'
import {
  defineDomain,
  destroyDomain,
  isPowerOff,
  killDomain,
  listDomains,
  openConsole,
  readState,
  readXml,
  resumeDomain,
  shutdownDomain,
  startDomain,
  undefineDomain,
} from '../launcher/libvirt/domain.ts'
import { LibvirtError, ProtocolError } from '../launcher/libvirt/errors.ts'
import { systemClock } from '../runtime/clock.ts'
import type { GuestProgram } from './libvirt/guest.ts'
import { eventually } from './until.ts'

/** A libvirtd, real or not. */
export interface ContractServer {
  dial(): Promise<Duplex>
  /** A domain with one serial port that boots the program. */
  domainXml(name: string, guest: GuestProgram): Promise<string>
  restartDaemon(): Promise<void>
  killGuests(): Promise<void>
  stop(): Promise<void>
}

/** The client's guarantees, with any daemon. */
export function libvirtContract(start: () => Promise<ContractServer>): void {
  let server: ContractServer
  let client: Client
  let hints: (LibvirtEvent | undefined)[] = []

  beforeAll(async () => {
    server = await start()
    client = new Client({
      dial: () => server.dial(),
      uri: 'qemu:///session',
      clock: systemClock,
      onHint: (hint) => hints.push(hint),
    })
    client.start()
  })

  afterEach(async () => {
    for (const dom of await listDomains(client)) {
      if ((await readState(client, dom))?.state === 'running') await killDomain(client, dom)
      await undefineDomain(client, dom)
    }
    hints = []
  })

  afterAll(async () => {
    client.close()
    await server.stop()
  })

  /** The numbers of the received lifecycle events. */
  const lifecycleEvents = () =>
    hints.flatMap((hint) => {
      const message = hint?.message['msg']
      return hint?.name === 'lifecycle' && typeof message === 'object' && message !== null && 'event' in message
        ? [message['event']]
        : []
    })

  const define = async (name: string, guest: GuestProgram) => defineDomain(client, await server.domainXml(name, guest))

  const defineAndStart = async (name: string, guest: GuestProgram) => {
    const dom = await define(name, guest)
    await startDomain(client, dom)
    return dom
  }

  /** The output of the console until it matches `pattern`. */
  const consoleSays = (console: Duplex, pattern: string) => {
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    return eventually(`the console prints ${pattern}`, () => text.includes(pattern) && text)
  }

  /** With or without an error: a real daemon closes a console with an I/O error. */
  const closed = (console: Duplex) => {
    console.once('error', () => {})
    return new Promise((resolve) => console.once('close', resolve))
  }

  describe('a domain', () => {
    test('is listed once it is defined, is off, and can be read', async () => {
      const dom = await define('first', 'idle')
      expect((await listDomains(client)).map(({ name }) => name)).toEqual(['first'])
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'unknown' })
      expect(await readXml(client, dom)).toContain('<name>first</name>')
      expect(await readXml(client, dom, { inactive: true })).toContain('<name>first</name>')
    })

    test('without a name is refused with libvirt’s message', async () => {
      const refused = defineDomain(client, "<domain type='qemu'><memory>1024</memory></domain>")
      await expect(refused).rejects.toBeInstanceOf(LibvirtError)
      await expect(refused).rejects.toMatchObject({ message: expect.stringMatching(/name/) })
      expect(await listDomains(client)).toEqual([])
    })

    test('whose XML exceeds the limit of a string is refused without being sent, and the connection continues', async () => {
      await expect(defineDomain(client, 'x'.repeat(5 * 1024 * 1024))).rejects.toBeInstanceOf(ProtocolError)
      expect(await listDomains(client)).toEqual([])
    })

    test('that does not exist has neither state nor XML', async () => {
      const unknown = { name: 'unknown', uuid: new Uint8Array(16).fill(9), id: -1 }
      expect(await readState(client, unknown)).toBe(undefined)
      expect(await readXml(client, unknown)).toBe(undefined)
    })

    test('runs once it is started, with events; a second start is refused', async () => {
      const dom = await defineAndStart('runs', 'idle')
      expect(await readState(client, dom)).toEqual({ state: 'running', reason: 'booted' })
      await eventually('events defined, resumed and started', () =>
        [0, 4, 2].every((it) => lifecycleEvents().includes(it)),
      )
      await expect(startDomain(client, dom)).rejects.toMatchObject({ name: 'LibvirtError', code: 55 })
    })

    test('runs once it is resumed, if it was started paused', async () => {
      const dom = await define('paused', 'idle')
      await startDomain(client, dom, { isPaused: true })
      expect(await readState(client, dom)).toEqual({ state: 'paused', reason: 'user' })
      const stream = await openConsole(client, dom, null)
      await resumeDomain(client, dom)
      expect(await readState(client, dom)).toEqual({ state: 'running', reason: 'unpaused' })
      stream.destroy()
    })

    test('that ignores the power button runs until it is destroyed; destroying it again is not an error', async () => {
      const dom = await defineAndStart('deaf', 'idle')
      await shutdownDomain(client, dom)
      expect(await readState(client, dom)).toMatchObject({ state: 'running' })
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'destroyed' })
      await eventually('an event of its end', () => lifecycleEvents().includes(5))
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'destroyed' })
    })

    test('that powers itself off has shut down', async () => {
      const dom = await defineAndStart('powers-off', 'powerOff')
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'shutdown' })
      await eventually('the event', () => hints.some((hint) => hint !== undefined && isPowerOff(hint)))
    })

    test('whose QEMU is killed has crashed', async () => {
      const dom = await defineAndStart('killed', 'idle')
      await server.killGuests()
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'crashed' })
      expect(hints.some((hint) => hint !== undefined && isPowerOff(hint))).toBe(false)
    })

    test('is gone once it is undefined', async () => {
      const dom = await define('gone', 'idle')
      await undefineDomain(client, dom)
      expect(await readState(client, dom)).toBe(undefined)
    })
  })

  describe('a console', () => {
    test('carries bytes both ways, and ends with the guest', async () => {
      const dom = await defineAndStart('echo', 'echo')
      const console = await openConsole(client, dom, null)
      const ended = closed(console)
      console.write('hello')
      expect(await consoleSays(console, 'hello')).toContain('hello')
      console.write('q')
      await ended
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
    })

    test('that is opened again closes the first one', async () => {
      const dom = await defineAndStart('echo-twice', 'echo')
      const first = await openConsole(client, dom, null)
      const firstEnded = closed(first.resume())
      const second = await openConsole(client, dom, null)
      await firstEnded
      second.write('again')
      expect(await consoleSays(second, 'again')).toContain('again')
      second.destroy()
    })

    test('can be closed and opened again', async () => {
      const dom = await defineAndStart('echo-ended', 'echo')
      const first = await openConsole(client, dom, null)
      const ended = closed(first.resume())
      first.end()
      await ended
      const second = await openConsole(client, dom, null)
      second.write('again')
      expect(await consoleSays(second, 'again')).toContain('again')
      second.destroy()
    })

    test('that is closed while the guest prints and is typed to does not stop the daemon', async () => {
      const dom = await defineAndStart('floods', 'flood')
      // A client that does not wait for the daemon before it disconnects stops it within some 200 consoles.
      for (let i = 0; i < 600; i += 1) {
        const console = await openConsole(client, dom, null)
        const ended = closed(console.resume())
        console.write('typed')
        await sleep(Math.random() * 3)
        console.destroy()
        await ended
        expect(await readState(client, dom)).toMatchObject({ state: 'running' })
      }
    })

    test('of a domain that is not running is refused', async () => {
      const dom = await define('off', 'idle')
      await expect(openConsole(client, dom, null)).rejects.toMatchObject({ code: 55 })
    })
  })

  describe('when the daemon ends', () => {
    test('the client finds the new one, all domains, and receives events again', async () => {
      const dom = await defineAndStart('survivor', 'idle')
      hints = []
      await server.restartDaemon()
      await eventually('a hint about the new connection', () => hints.includes(undefined))
      expect(await readState(client, dom)).toMatchObject({ state: 'running' })
      await define('newcomer', 'idle')
      await eventually('an event of the new domain', () => lifecycleEvents().includes(0))
      // Until the new daemon has taken over the domain, its end causes no event.
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toMatchObject({ state: 'shutoff' })
    })
  })

  test('a hundred calls at once all get a reply', async () => {
    const dom = await define('busy', 'idle')
    const answers = await Promise.all(Array.from({ length: 100 }, () => readState(client, dom)))
    expect(new Set(answers.map((answer) => answer?.state))).toEqual(new Set(['shutoff']))
  })
}

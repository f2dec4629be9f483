import type { Duplex } from 'node:stream'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { Client } from '../launcher/libvirt/client.ts'
import type { LibvirtEvent } from '../launcher/libvirt/connection.ts'
import {
  defineDomain,
  destroyDomain,
  killDomain,
  listDomains,
  openConsole,
  readState,
  readXml,
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

/** What the client promises, whoever it speaks to. */
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

  /** The numbers of the lifecycle events that came. */
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

  /** What the console says until `pattern` occurs in it. */
  const consoleSays = (console: Duplex, pattern: string) => {
    let text = ''
    console.on('data', (chunk: Buffer) => (text += chunk.toString()))
    return eventually(`the console says ${pattern}`, () => text.includes(pattern) && text)
  }

  /** Well or badly: a real daemon takes a console away with an I/O error. */
  const closed = (console: Duplex) => {
    console.once('error', () => {})
    return new Promise((resolve) => console.once('close', resolve))
  }

  describe('a domain', () => {
    test('that was defined is listed, is off, and can be read back', async () => {
      const dom = await define('first', 'idle')
      expect((await listDomains(client)).map(({ name }) => name)).toEqual(['first'])
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'unknown' })
      expect(await readXml(client, dom)).toContain('<name>first</name>')
      expect(await readXml(client, dom, { inactive: true })).toContain('<name>first</name>')
    })

    test('without a name is refused in libvirt’s words', async () => {
      const refused = defineDomain(client, "<domain type='qemu'><memory>1024</memory></domain>")
      await expect(refused).rejects.toBeInstanceOf(LibvirtError)
      await expect(refused).rejects.toMatchObject({ message: expect.stringMatching(/name/) })
      expect(await listDomains(client)).toEqual([])
    })

    test('whose XML is longer than a string may be is refused without being sent, and the connection goes on', async () => {
      await expect(defineDomain(client, 'x'.repeat(5 * 1024 * 1024))).rejects.toBeInstanceOf(ProtocolError)
      expect(await listDomains(client)).toEqual([])
    })

    test('that libvirt does not know has neither state nor XML', async () => {
      const unknown = { name: 'unknown', uuid: new Uint8Array(16).fill(9), id: -1 }
      expect(await readState(client, unknown)).toBe(undefined)
      expect(await readXml(client, unknown)).toBe(undefined)
    })

    test('runs once started, which events tell; a second start is refused', async () => {
      const dom = await defineAndStart('runs', 'idle')
      expect(await readState(client, dom)).toEqual({ state: 'running', reason: 'booted' })
      await eventually('defined, resumed and started were told', () =>
        [0, 4, 2].every((it) => lifecycleEvents().includes(it)),
      )
      await expect(startDomain(client, dom)).rejects.toMatchObject({ name: 'LibvirtError', code: 55 })
    })

    test('that ignores the power button goes on until it is destroyed; again is no error', async () => {
      const dom = await defineAndStart('deaf', 'idle')
      await shutdownDomain(client, dom)
      expect(await readState(client, dom)).toMatchObject({ state: 'running' })
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'destroyed' })
      await eventually('its end was told', () => lifecycleEvents().includes(5))
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'destroyed' })
    })

    test('that powers itself off has shut down', async () => {
      const dom = await defineAndStart('powers-off', 'powerOff')
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'shutdown' })
    })

    test('whose QEMU is killed has crashed', async () => {
      const dom = await defineAndStart('killed', 'idle')
      await server.killGuests()
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
      expect(await readState(client, dom)).toEqual({ state: 'shutoff', reason: 'crashed' })
    })

    test('that is undefined is gone', async () => {
      const dom = await define('gone', 'idle')
      await undefineDomain(client, dom)
      expect(await readState(client, dom)).toBe(undefined)
    })
  })

  describe('a console', () => {
    test('carries bytes both ways, and ends with the guest', async () => {
      const dom = await defineAndStart('echo', 'echo')
      const console = await openConsole(client, dom)
      const ended = closed(console)
      console.write('hello')
      expect(await consoleSays(console, 'hello')).toContain('hello')
      console.write('q')
      await ended
      await eventually('it is off', async () => (await readState(client, dom))?.state === 'shutoff')
    })

    test('that is opened again takes the guest from the first', async () => {
      const dom = await defineAndStart('echo-twice', 'echo')
      const first = await openConsole(client, dom)
      const firstEnded = closed(first.resume())
      const second = await openConsole(client, dom)
      await firstEnded
      second.write('again')
      expect(await consoleSays(second, 'again')).toContain('again')
      second.destroy()
    })

    test('can be ended, and opened anew', async () => {
      const dom = await defineAndStart('echo-ended', 'echo')
      const first = await openConsole(client, dom)
      const ended = closed(first.resume())
      first.end()
      await ended
      const second = await openConsole(client, dom)
      second.write('anew')
      expect(await consoleSays(second, 'anew')).toContain('anew')
      second.destroy()
    })

    test('of a domain that does not run is refused', async () => {
      const dom = await define('off', 'idle')
      await expect(openConsole(client, dom)).rejects.toMatchObject({ code: 55 })
    })
  })

  describe('the daemon ends', () => {
    test('and the client finds the new one, all domains, and hears events again', async () => {
      const dom = await defineAndStart('survivor', 'idle')
      hints = []
      await server.restartDaemon()
      await eventually('a new connection is told', () => hints.includes(undefined))
      expect(await readState(client, dom)).toMatchObject({ state: 'running' })
      await define('newcomer', 'idle')
      await eventually('the newcomer was told', () => lifecycleEvents().includes(0))
      // While the new daemon still takes the domain over, its end is told by no event.
      await destroyDomain(client, dom)
      expect(await readState(client, dom)).toMatchObject({ state: 'shutoff' })
    })
  })

  test('a hundred calls at once are all answered', async () => {
    const dom = await define('busy', 'idle')
    const answers = await Promise.all(Array.from({ length: 100 }, () => readState(client, dom)))
    expect(new Set(answers.map((answer) => answer?.state))).toEqual(new Set(['shutoff']))
  })
}

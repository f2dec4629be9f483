import { FitAddon } from '@xterm/addon-fit'
import { Terminal } from '@xterm/xterm'
import { useEffect, useRef, useState } from 'preact/hooks'
import { sessionPath, socketUrl } from './api.ts'
import { html } from './html.ts'
import { LeaveHint, leaves } from './leave.ts'

interface ConsoleProps {
  readonly namespace: string
  readonly name: string
  readonly hasSerial: boolean
}

const retryMs = 2000
const colors = { background: '#0b1020', foreground: '#e5e9f5', cursor: '#7aa2ff' }

/** The serial console of a running VM, with its past. Opens the session again when it is lost. */
export function Console({ namespace, name, hasSerial }: ConsoleProps) {
  const place = useRef<HTMLDivElement>(null)
  const [state, setState] = useState('connecting')
  useEffect(() => {
    if (!hasSerial || place.current === null) return
    const terminal = new Terminal({ scrollback: 5000, fontSize: 13, theme: colors, screenReaderMode: true })
    const fit = new FitAddon()
    terminal.loadAddon(fit)
    terminal.open(place.current)
    fit.fit()
    const sized = new ResizeObserver(() => fit.fit())
    sized.observe(place.current)
    let socket: WebSocket | undefined
    let timer: ReturnType<typeof setTimeout> | undefined
    let isStopped = false
    const send = (bytes: Uint8Array<ArrayBuffer>) => {
      if (socket?.readyState === WebSocket.OPEN) socket.send(bytes)
    }
    const open = () => {
      const opened = new WebSocket(socketUrl(sessionPath(namespace, name, 'attach/console')))
      socket = opened
      opened.binaryType = 'arraybuffer'
      opened.addEventListener('message', ({ data }) => {
        // The session begins with the past, which is shown already after a loss.
        if (opened === socket) terminal.write(new Uint8Array(data))
      })
      opened.addEventListener('open', () => {
        terminal.reset()
        setState('connected')
      })
      opened.addEventListener('close', ({ reason }) => {
        if (isStopped) return
        setState(reason === '' ? 'lost, connecting again …' : reason)
        timer = setTimeout(open, retryMs)
      })
    }
    terminal.attachCustomKeyEventHandler((event) => {
      if (!leaves(event)) return true
      if (event.type === 'keydown') terminal.blur()
      return false
    })
    terminal.onData((text) => send(new TextEncoder().encode(text)))
    terminal.onBinary((text) => send(Uint8Array.from(text, (character) => character.charCodeAt(0))))
    open()
    return () => {
      isStopped = true
      clearTimeout(timer)
      sized.disconnect()
      socket?.close()
      terminal.dispose()
    }
  }, [namespace, name, hasSerial])
  return html`<section class="card" aria-labelledby="console-title">
    <div class="bar">
      <h2 id="console-title">Serial console</h2>
      <span class="count" id="console-state" role="status">${hasSerial ? state : 'none'}</span>
      ${hasSerial && html`<span class="grow"></span><${LeaveHint} />`}
    </div>
    ${
      hasSerial
        ? html`<div id="console" class="console" ref=${place}></div>`
        : html`<p class="muted">This VM has no serial port. Add <code>serials: [{type: pty}]</code> to its devices.</p>`
    }
  </section>`
}

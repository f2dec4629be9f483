import RFB from '@novnc/novnc'
import { useEffect, useRef, useState } from 'preact/hooks'
import { sessionPath, socketUrl } from './api.ts'
import { html } from './html.ts'
import { LeaveHint, leaves } from './leave.ts'

interface ScreenProps {
  readonly namespace: string
  readonly name: string
  readonly hasScreen: boolean
}

const retryMs = 2000

/** The screen of a running VM. Opens the session again when it is lost. */
export function Screen({ namespace, name, hasScreen }: ScreenProps) {
  const place = useRef<HTMLDivElement>(null)
  const viewer = useRef<RFB>(undefined)
  const [state, setState] = useState('connecting')
  useEffect(() => {
    if (!hasScreen) return
    let timer: ReturnType<typeof setTimeout> | undefined
    let isStopped = false
    const open = () => {
      if (place.current === null) return
      const socket = new WebSocket(socketUrl(sessionPath(namespace, name, 'attach/vnc')))
      const rfb = new RFB(place.current, socket, { shared: true })
      rfb.scaleViewport = true
      rfb.background = 'transparent'
      viewer.current = rfb
      rfb.addEventListener('connect', () => setState('connected'))
      socket.addEventListener('close', ({ reason }) => {
        if (isStopped) return
        setState(reason === '' ? 'lost, connecting again …' : reason)
        timer = setTimeout(open, retryMs)
      })
    }
    open()
    return () => {
      isStopped = true
      clearTimeout(timer)
      viewer.current?.disconnect()
    }
  }, [namespace, name, hasScreen])
  const leave = (event: KeyboardEvent) => {
    if (!leaves(event)) return
    event.preventDefault()
    event.stopPropagation()
    viewer.current?.blur()
    // It was pressed in the guest, which does not see that it is released.
    viewer.current?.sendKey(0xffe3, 'ControlLeft', false)
    viewer.current?.sendKey(0xffe4, 'ControlRight', false)
  }
  return html`<section class="card" aria-labelledby="screen-title">
    <div class="bar">
      <h2 id="screen-title">Screen</h2>
      <span class="count" id="screen-state" role="status">${hasScreen ? state : 'none'}</span>
      <span class="grow"></span>
      ${
        hasScreen &&
        html`<${LeaveHint} /><button id="cad" onClick=${() => viewer.current?.sendCtrlAltDel()}>Ctrl+Alt+Del</button>
          <button onClick=${() => void place.current?.requestFullscreen()}>Full screen</button>`
      }
    </div>
    ${
      hasScreen
        ? html`<div id="screen" class="screen" ref=${place} onKeyDownCapture=${leave}></div>`
        : html`<p class="muted">This VM has no screen. Add <code>graphics: [{type: vnc}]</code> to its devices.</p>`
    }
  </section>`
}

/** The part of noVNC that is used (https://github.com/novnc/noVNC/blob/v1.7.0/docs/API.md). */
declare module '@novnc/novnc' {
  export default class RFB extends EventTarget {
    constructor(target: Element, channel: string | WebSocket, options?: { shared?: boolean })
    scaleViewport: boolean
    background: string
    focus(): void
    blur(): void
    sendKey(keysym: number, code: string, down?: boolean): void
    disconnect(): void
    sendCtrlAltDel(): void
  }
}

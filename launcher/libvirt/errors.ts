/** The bytes violate libvirt's protocol. Later bytes cannot be trusted, so the connection is closed. */
export class ProtocolError extends Error {
  override name = 'ProtocolError'
}

/** The daemon ended, or is not running. The call may have taken effect. */
export class ConnectionLost extends Error {
  override name = 'ConnectionLost'
}

/** No reply in time. libvirtd continues to work on the call. */
export class DeadlineExceeded extends Error {
  override name = 'DeadlineExceeded'
}

/** libvirt refused; `message` is its own. Distinguish errors by `code` (`errorCodes`), never by text. */
export class LibvirtError extends Error {
  override name = 'LibvirtError'
  readonly code: number
  /** The part of libvirt that refused: 7 is RPC, 10 QEMU, 20 domain. */
  readonly domain: number

  constructor(message: string, code: number, domain: number) {
    super(message)
    this.code = code
    this.domain = domain
  }
}

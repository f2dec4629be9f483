/** The bytes do not follow libvirt's protocol: nothing after them can be trusted, the connection is given up. */
export class ProtocolError extends Error {
  override name = 'ProtocolError'
}

/** The daemon went away, or was never there. What was asked may or may not have been done. */
export class ConnectionLost extends Error {
  override name = 'ConnectionLost'
}

/** No answer in time. libvirtd goes on with what it was asked. */
export class DeadlineExceeded extends Error {
  override name = 'DeadlineExceeded'
}

/** libvirt refused, in its own words. Tell errors apart by `code` (`errorCodes`), never by text. */
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

import { isIPv4, isIPv6 } from 'node:net'

/** Undefined if the address of a SessionEndpoint is not an IP address with a port. No name is looked up for it. */
export function parseEndpointAddress(address: string): { readonly host: string; readonly port: number } | undefined {
  const [, v6 = '', v4 = '', port] = /^(?:\[([^\]%]+)\]|([^:]+)):(\d{1,5})$/.exec(address) ?? []
  const isAddress = isIPv6(v6) || isIPv4(v4)
  return isAddress && Number(port) <= 65_535 ? { host: v6 || v4, port: Number(port) } : undefined
}

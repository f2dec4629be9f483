import { isIPv6 } from 'node:net'

/** The 16 bytes of an IPv6 address without a zone. @throws if it is none */
export function ipv6Bytes(address: string): Buffer {
  if (!isIPv6(address) || address.includes('%')) throw new Error(`${address} is not an IPv6 address`)
  // The one form in which an IPv4 address at the end is hexadecimal, too.
  const { hostname } = new URL(`http://[${address}]`)
  const [before = '', after] = hostname.slice(1, -1).split('::')
  const groups = (text = '') => (text === '' ? [] : text.split(':'))
  const [head, tail] = [groups(before), groups(after)]
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => '0')
  return Buffer.from([...head, ...zeros, ...tail].map((group) => group.padStart(4, '0')).join(''), 'hex')
}

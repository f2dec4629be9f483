/** `HOST:PORT` of a URL or an address to connect to; IPv6 addresses are in brackets. */
export const hostPort = (host: string, port: number | string): string =>
  `${host.includes(':') ? `[${host}]` : host}:${port}`

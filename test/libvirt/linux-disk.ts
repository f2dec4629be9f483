/** The disk of the Linux guest, a qcow2 file. Set by `make test`. */
export function linuxDisk(): string {
  const path = process.env['LINUX_GUEST']
  if (path === undefined)
    throw new Error('LINUX_GUEST is not set: run `make linux-guest` and set it to the path it prints')
  return path
}

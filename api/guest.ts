import { closed, list, string } from './schema.ts'

/** The name of the channel by which libvirt reaches the QEMU guest agent. */
export const agentChannel = 'org.qemu.guest_agent.0'

/** What the agent in a guest reports. The guest can claim anything: nothing is decided by it. */
export interface GuestStatus {
  readonly hostname?: string
  readonly os?: GuestOS
}

export interface GuestOS {
  /** e.g. `debian` */
  readonly id?: string
  /** e.g. `Debian GNU/Linux 13 (trixie)` */
  readonly name?: string
  readonly version?: string
  readonly kernel?: string
}

export const guestStatus = closed('What the agent in the guest reports. The guest can claim anything.', {
  hostname: string('Its host name.'),
  os: closed('Its operating system.', {
    id: string('Its short name, such as debian.'),
    name: string('Its name for people.'),
    version: string('Its version.'),
    kernel: string('The version of its kernel.'),
  }),
})

export const guestIPs = list(
  'The addresses that the agent in the guest reports for the MAC, without link-local ones. The guest can claim any.',
  string('An IP address.'),
  { 'x-kubernetes-list-type': 'atomic' },
)

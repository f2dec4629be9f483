/**
 * Guests of one boot sector, for real mode under SeaBIOS: they run 0.2 s after their start, and sleep by `hlt`, so that emulation costs no CPU.
 */

/** SeaBIOS boots no virtio disk that is much smaller. */
const diskBytes = 1024 * 1024

/** Writes ax = 0x2000 to port 0x604: ACPI power-off of QEMU's pc and q35 machines. Never returns. */
const powerOff = [0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xfa, 0xf4, 0xeb, 0xfd]

const idle = [0xfb, 0xf4, 0xeb, 0xfd]

/** Echoes what comes in on the first serial port, until a `q` comes: then on with what follows. */
const echoUntilQ = [
  [0xba, 0xfd, 0x03], // wait: mov dx, 0x3fd
  [0xec, 0xa8, 0x01], // in al, dx; test al, 1
  [0x75, 0x04], // jnz got
  [0xfb, 0xf4], // sti; hlt: until the next tick of 55 ms
  [0xeb, 0xf4], // jmp wait
  [0xba, 0xf8, 0x03], // got: mov dx, 0x3f8
  [0xec, 0x3c, 0x71], // in al, dx; cmp al, 'q'
  [0x74, 0x03], // je end
  [0xee], // out dx, al
  [0xeb, 0xe9], // jmp wait
].flat()

function say(text: string): number[] {
  return [0xba, 0xf8, 0x03, ...[...Buffer.from(text)].flatMap((byte) => [0xb0, byte, 0xee])]
}

const programs = {
  /** Sleeps for ever and ignores the power button. */
  idle,
  /** Powers itself off at once. */
  powerOff,
  /** Says `up` on the serial console, echoes what is typed, and powers itself off at a `q`. */
  echo: [...say('up\n'), ...echoUntilQ, ...powerOff],
}

export type GuestProgram = keyof typeof programs

/** A raw disk that boots the program. */
export function guestDisk(program: GuestProgram): Uint8Array {
  const disk = new Uint8Array(diskBytes)
  disk.set(programs[program])
  disk.set([0x55, 0xaa], 510)
  return disk
}

/** The smallest domain that boots it; `devices` is more XML. */
export function guestXml(guest: {
  name: string
  disk: string
  uuid?: string
  type?: string
  devices?: string
}): string {
  const uuid = guest.uuid === undefined ? '' : `<uuid>${guest.uuid}</uuid>`
  return `<domain type='${guest.type ?? 'qemu'}'><name>${guest.name}</name>${uuid}<memory unit='MiB'>16</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='pc'>hvm</type></os><features><acpi/></features>
  <devices><disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='${guest.disk}'/><target dev='vda' bus='virtio'/></disk>
  ${guest.devices ?? ''}</devices></domain>`
}

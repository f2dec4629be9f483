/**
 * Guests that consist of one boot sector, for real mode under SeaBIOS. They run 0.2 s after the start, and sleep with
 * `hlt`, so that emulation costs no CPU.
 */

/** SeaBIOS does not boot a much smaller virtio disk. */
const diskBytes = 1024 * 1024

/** Writes ax = 0x2000 to port 0x604: ACPI power-off of QEMU's pc and q35 machines. Never returns. */
const powerOff = [0xba, 0x04, 0x06, 0xb8, 0x00, 0x20, 0xef, 0xfa, 0xf4, 0xeb, 0xfd]

const idle = [0xfb, 0xf4, 0xeb, 0xfd]

/** Echoes the input of the first serial port until a `q`, then continues with the following code. */
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

/** Prints `x` on the first serial port without end. */
const flood = [0xba, 0xf8, 0x03, 0xb0, 0x78, 0xee, 0xeb, 0xfd]

function print(text: string): number[] {
  return [0xba, 0xf8, 0x03, ...[...Buffer.from(text)].flatMap((byte) => [0xb0, byte, 0xee])]
}

const loadAddress = 0x7c00

/** Makes 32-bit addresses usable in real mode. `gdt` is the address of `largeSegments`. */
const useLargeSegments = (gdt: number): number[][] => [
  [0xfa, 0x31, 0xc0, 0x8e, 0xd8], // cli; xor ax, ax; mov ds, ax
  [0x0f, 0x01, 0x16, ...word(gdt + 16)], // lgdt
  [0x0f, 0x20, 0xc0, 0x66, 0x83, 0xc8, 0x01, 0x0f, 0x22, 0xc0], // cr0 |= 1
  [0xbb, 0x08, 0x00, 0x8e, 0xdb], // mov ds, 8: a segment of 4 GiB
  [0x66, 0x83, 0xe0, 0xfe, 0x0f, 0x22, 0xc0], // cr0 &= ~1
]

const largeSegments = (gdt: number): number[][] => [
  [0, 0, 0, 0, 0, 0, 0, 0],
  [0xff, 0xff, 0x00, 0x00, 0x00, 0x92, 0xcf, 0x00], // data, from 0 to 4 GiB
  [0x0f, 0x00, ...word(gdt), 0x00, 0x00], // what lgdt loads: the length of the two, less 1, and their address
]

/** Writes a byte to each page from 1 MiB up to 256 MiB, with 32-bit addresses in real mode, then sleeps. */
const touchMemory = withData(
  (gdt) => [
    ...useLargeSegments(gdt),
    [0x66, 0xbf, 0x00, 0x00, 0x10, 0x00], // mov edi, 1 MiB
    [0x67, 0xc6, 0x07, 0x01], // next: mov byte [edi], 1
    [0x66, 0x81, 0xc7, 0x00, 0x10, 0x00, 0x00], // add edi, 4096
    [0x66, 0x81, 0xff, 0x00, 0x00, 0x00, 0x10, 0x72, 0xec], // cmp edi, 256 MiB; jb next
    [0xf4, 0xeb, 0xfd], // hlt
  ],
  largeSegments,
)

const readClock = [0x80, 0x01, 0, 0, 0, 10, 0, 0, 0x01, 0x81]
/** PCR 0 of the bank SHA-256. */
const readPcr = [0x80, 0x01, 0, 0, 0, 20, 0, 0, 0x01, 0x7e, 0, 0, 0, 1, 0, 0x0b, 3, 0x01, 0, 0]

/**
 * Prints how often the TPM was reset, and PCR 0, in hex on the serial port, again and again: QEMU drops what a guest
 * prints before the console is open. It uses the command response
 * buffer of a TPM 2.0 (`tpm-crb`), as "TCG PC Client Platform TPM Profile" defines it.
 */
const readTpm = withData(
  (gdt) => {
    const [clock, pcr] = [gdt + 22, gdt + 22 + readClock.length]
    return [
      ...useLargeSegments(gdt),
      [0x66, 0xbb, 0x00, 0x00, 0xd4, 0xfe], // mov ebx, 0xfed40000
      [0x67, 0xc6, 0x43, 0x08, 0x01], // mov byte [ebx + 0x08], 1: use locality 0
      [0x67, 0xc6, 0x43, 0x40, 0x01], // mov byte [ebx + 0x40], 1: get ready
      [0xba, 0xf8, 0x03], // mov dx, 0x3f8
      [0xbe, ...word(clock), 0xb9, ...word(readClock.length), 0xe8, 0x27, 0x00], // si, cx; call submit
      [0x66, 0x83, 0xc7, 26 - readClock.length, 0xb9, 0x04, 0x00, 0xe8, 0x3a, 0x00], // edi: resetCount; cx; call print
      [0xb0, 0x20, 0xee], // mov al, ' '; out dx, al
      [0xbe, ...word(pcr), 0xb9, ...word(readPcr.length), 0xe8, 0x11, 0x00], // si, cx; call submit
      [0x66, 0x83, 0xc7, 30 - readPcr.length, 0xb9, 0x20, 0x00, 0xe8, 0x24, 0x00], // edi: the digest; cx; call print
      [0xb0, 0x0a, 0xee], // mov al, '\n'; out dx, al
      [0xfb, 0xf4, 0xeb, 0x9d], // sti; hlt: until the next tick of 55 ms; jmp to the first instruction
      [0x66, 0x67, 0x8d, 0xbb, 0x80, 0x00, 0x00, 0x00], // submit: lea edi, [ebx + 0x80]
      [0xac, 0x67, 0x88, 0x07, 0x66, 0x47, 0xe2, 0xf8], // next: lodsb; mov [edi], al; inc edi; loop next
      [0x67, 0xc6, 0x43, 0x4c, 0x01], // mov byte [ebx + 0x4c], 1: start
      [0x67, 0xf6, 0x43, 0x4c, 0x01, 0x75, 0xf9, 0xc3], // busy: test byte [ebx + 0x4c], 1; jnz busy; ret
      [0x67, 0x8a, 0x07, 0xd4, 0x10, 0x86, 0xc4], // print: mov al, [edi]; aam 16; xchg al, ah
      [0xe8, 0x0d, 0x00], // call digit
      [0x67, 0x8a, 0x07, 0x24, 0x0f, 0xe8, 0x05, 0x00], // mov al, [edi]; and al, 15; call digit
      [0x66, 0x47, 0xe2, 0xea, 0xc3], // inc edi; loop print; ret
      [0x3c, 0x0a, 0x1c, 0x69, 0x2f, 0xee, 0xc3], // digit: cmp al, 10; sbb al, 0x69; das; out dx, al; ret
    ]
  },
  (gdt) => [...largeSegments(gdt), readClock, readPcr],
)

/** A program followed by its data; both functions get the address of the data. */
function withData(code: (data: number) => number[][], data: (data: number) => number[][]): number[] {
  const address = loadAddress + code(0).flat().length
  return [...code(address), ...data(address)].flat()
}

function word(value: number): number[] {
  return [value & 0xff, value >> 8]
}

/** Writes to every sector of the first disk after its own, 64 at a time by the BIOS, then sleeps. */
const fillDisk = withData(
  (packet) => [
    [0x31, 0xc0, 0x8e, 0xd8, 0xbe, ...word(packet)], // xor ax, ax; mov ds, ax; mov si, packet
    [0xb8, 0x00, 0x43, 0xb2, 0x80, 0xcd, 0x13], // next: mov ax, 0x4300; mov dl, 0x80; int 0x13
    [0x72, 0x0a], // jc stop: the end of the disk
    [0x83, 0x44, 0x08, 0x40, 0x83, 0x54, 0x0a, 0x00], // add word [si + 8], 64; adc word [si + 10], 0
    [0xeb, 0xed], // jmp next
    [0xfb, 0xf4, 0xeb, 0xfc], // stop: sti; hlt; jmp stop
  ],
  // 64 sectors from memory at 0x1000, to sector 1.
  () => [[0x10, 0, 64, 0, 0x00, 0x10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]],
)

const programs = {
  /** Sleeps forever and ignores the power button. */
  idle,
  /** Powers itself off immediately. */
  powerOff,
  /** Makes QEMU allocate all of the guest's memory, up to 256 MiB. */
  touchMemory,
  /** Writes to the whole disk. */
  fillDisk,
  /** Prints without end. */
  flood,
  /** Prints lines of `RESETS PCR0`, both in hex. Requires a TPM. */
  readTpm,
  /** Prints `up` on the serial console, echoes what is typed, and powers itself off at a `q`. */
  echo: [...print('up\n'), ...echoUntilQ, ...powerOff],
}

export type GuestProgram = keyof typeof programs

/** A raw disk that boots the program. */
export function guestDisk(program: GuestProgram): Uint8Array {
  const disk = new Uint8Array(diskBytes)
  disk.set(programs[program])
  disk.set([0x55, 0xaa], 510)
  return disk
}

/** The smallest domain that boots the disk; `devices` is additional XML. */
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

import { Usage } from './failure.ts'

/** A key as VNC sends it: its keysym of X11. */
type Keysym = number

const shift = 0xffe1

/** Keysyms by name, in lower case. A single character is its own name. */
const named: { readonly [name: string]: Keysym } = {
  ctrl: 0xffe3,
  alt: 0xffe9,
  shift,
  meta: 0xffeb,
  altgr: 0xfe03,
  enter: 0xff0d,
  esc: 0xff1b,
  tab: 0xff09,
  space: 0x20,
  backspace: 0xff08,
  delete: 0xffff,
  insert: 0xff63,
  home: 0xff50,
  end: 0xff57,
  pageup: 0xff55,
  pagedown: 0xff56,
  left: 0xff51,
  up: 0xff52,
  right: 0xff53,
  down: 0xff54,
  minus: 0x2d,
  print: 0xff61,
  pause: 0xff13,
  menu: 0xff67,
  capslock: 0xffe5,
  numlock: 0xff7f,
  sysrq: 0xff15,
  ...Object.fromEntries(Array.from({ length: 12 }, (_, index) => [`f${index + 1}`, 0xffbe + index])),
}

/** The characters that a US keyboard types with Shift. */
const shifted = /^[A-Z~!@#$%^&*()_+{}|:"<>?]$/

/** The keys of a combination such as `ctrl-alt-delete`, in the order in which they are pressed. @throws Usage */
export function combination(text: string): readonly Keysym[] {
  return text
    .toLowerCase()
    .split('-')
    .map((name) => {
      const known = Object.hasOwn(named, name) ? named[name] : undefined
      if (known !== undefined) return known
      if (/^[!-~]$/.test(name)) return name.charCodeAt(0)
      throw new Usage(`"${text}" has no key "${name}"; keys are single characters and ${Object.keys(named).join(', ')}`)
    })
}

/** The combinations that type a text on a US keyboard. @throws Usage */
export const typing = (text: string): (readonly Keysym[])[] =>
  Array.from(text.replaceAll('\r\n', '\n')).map((character) => {
    if (character === '\n') return combination('enter')
    if (character === '\t') return combination('tab')
    if (!/^[ -~]$/.test(character)) throw new Usage(`${JSON.stringify(character)} is not on a US keyboard`)
    const keysym = character.charCodeAt(0)
    return shifted.test(character) ? [shift, keysym] : [keysym]
  })

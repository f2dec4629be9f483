import { attribute, child, children, element } from '../description.ts'
import { hostName, oneOf, onOff, path, port, socketPath, yesNo } from '../scalar.ts'
import { fileIdentifier, line } from '../text.ts'

const host = { reach: 'host' } as const
const pod = { reach: 'pod' } as const

const listen = element('Where the display server listens.', {
  type: attribute(
    oneOf('address', 'network', 'socket', 'none'),
    'The kind of listener, which decides the other fields.',
    {
      reachOf: { address: 'pod', network: 'host' },
    },
  ),
  address: attribute(hostName, 'IP address or host name; loopback if absent.', pod),
  network: attribute(line(255), 'The libvirt network whose address is used.', host),
  socket: attribute(socketPath, 'The socket; libvirt generates one if absent.', host),
})

const spiceChannel = element('Whether one channel of SPICE is encrypted.', {
  name: attribute(
    oneOf('main', 'display', 'inputs', 'cursor', 'playback', 'record', 'smartcard', 'usbredir'),
    'The channel.',
  ),
  mode: attribute(oneOf('any', 'secure', 'insecure'), 'Encrypted, unencrypted, or as the viewer chooses.'),
})

const gl = element('OpenGL on the node.', {
  enable: attribute(yesNo, 'Whether it is enabled.', host),
  rendernode: attribute(path, 'The device file of the graphics card; the first one if absent.', host),
})

const compression = oneOf('auto', 'never', 'always')

export const graphics = element("A display of the guest's screen.", {
  type: attribute(
    oneOf('vnc', 'spice', 'sdl', 'rdp', 'desktop', 'egl-headless', 'dbus'),
    'The protocol, which decides the other fields.',
    {
      reachOf: {
        vnc: 'pod',
        spice: 'pod',
        rdp: 'pod',
        dbus: 'pod',
        sdl: 'host',
        desktop: 'host',
        'egl-headless': 'host',
      },
    },
  ),
  port: attribute(port, 'TCP port; -1 or absent with `autoport`: the next free one.', pod),
  tlsPort: attribute(port, 'TCP port with encryption, for SPICE.', pod),
  autoport: attribute(yesNo, 'Whether the ports are chosen at start.', pod),
  websocket: attribute(port, 'TCP port for WebSockets, for VNC; -1: chosen at start.', pod),
  socket: attribute(socketPath, 'The socket, in the form of older libvirt.', host),
  listen: attribute(hostName, 'The address of the first of `listens`, in the form of older libvirt.', pod),
  keymap: attribute(fileIdentifier, "The keyboard layout, one of QEMU's keymap files, e.g. `en-us`.", pod),
  username: attribute(line(255), 'The user that can log in, for RDP.'),
  passwd: attribute(line(255), 'The password. Every user who can read the VM can read it.'),
  passwdValidTo: attribute({ kind: 'timestamp' }, 'When the password expires: `2030-01-31T12:00:00`, UTC.'),
  connected: attribute(
    oneOf('fail', 'disconnect', 'keep'),
    'What happens to connected viewers when the password changes, for SPICE.',
  ),
  sharePolicy: attribute(
    oneOf('allow-exclusive', 'force-shared', 'ignore'),
    'Whether a VNC viewer may disconnect the others.',
  ),
  powerControl: attribute(yesNo, 'Whether a VNC viewer may shut down and reset the guest.'),
  defaultMode: attribute(oneOf('any', 'secure', 'insecure'), 'Whether SPICE channels are encrypted.'),
  replaceUser: attribute(yesNo, 'Whether a new RDP viewer takes over.'),
  multiUser: attribute(yesNo, 'Whether several RDP viewers may connect.'),
  display: attribute(line(255), 'The X display of the node, for SDL.', host),
  xauth: attribute(path, 'The X authority file, for SDL.', host),
  fullscreen: attribute(yesNo, 'Whether the window fills the screen, for SDL.', host),
  p2p: attribute(yesNo, 'Whether D-Bus connects peer to peer, without a bus.', pod),
  address: attribute(line(), 'The address of the D-Bus.', host),
  listens: children('listen', listen, 'Where the server listens.'),
  channels: children('channel', spiceChannel, 'Whether individual SPICE channels are encrypted.', { key: [['name']] }),
  image: child(
    element('Compression of images, for SPICE.', {
      compression: attribute(oneOf('auto_glz', 'auto_lz', 'quic', 'glz', 'lz', 'off'), 'The method.'),
    }),
    'Compression of images, for SPICE.',
  ),
  jpeg: child(
    element('Lossy compression, for SPICE over slow connections.', {
      compression: attribute(compression, 'When it is used.'),
    }),
    'Lossy compression, for SPICE over slow connections.',
  ),
  zlib: child(
    element('A second compression, for SPICE over slow connections.', {
      compression: attribute(compression, 'When it is used.'),
    }),
    'A second compression, for SPICE over slow connections.',
  ),
  playback: child(
    element('Compression of sound, for SPICE.', { compression: attribute(onOff, 'Whether it is enabled.') }),
    'Compression of sound, for SPICE.',
  ),
  streaming: child(
    element('Whether moving images are streamed as video, for SPICE.', {
      mode: attribute(oneOf('filter', 'all', 'off'), 'Which images are streamed.'),
    }),
    'Whether moving images are streamed as video, for SPICE.',
  ),
  mouse: child(
    element('The mouse, for SPICE.', {
      mode: attribute(oneOf('server', 'client'), 'Whether the client or the guest draws the pointer.'),
    }),
    'The mouse, for SPICE.',
  ),
  clipboard: child(
    element('The clipboard, for SPICE.', {
      copypaste: attribute(yesNo, 'Whether viewer and guest share the clipboard; yes if absent.'),
    }),
    'The clipboard, for SPICE.',
  ),
  filetransfer: child(
    element('Files dropped on the viewer, for SPICE.', {
      enable: attribute(yesNo, 'Whether the guest receives them; yes if absent.'),
    }),
    'Files dropped on the viewer, for SPICE.',
  ),
  gl: child(gl, 'OpenGL on the node.'),
  audio: child(
    element('Which of `audios` a VNC or D-Bus viewer hears.', {
      id: attribute({ kind: 'integer', min: 1, max: 255 }, 'Its id.'),
    }),
    'Which of `audios` a VNC or D-Bus viewer hears.',
  ),
})

import type { Duplex } from 'node:stream'

const [width, height] = [320, 200]
/** 32 bits per pixel, 8 for each color. */
const pixelFormat = [32, 24, 0, 1, 0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]
const name = 'QEMU (web)'

/**
 * A VNC server as QEMU's: RFB 3.8 without a password (RFC 6143), with a black picture.
 * @returns the bytes that the viewer has sent after it was connected, in hexadecimal
 */
export function serveScreen(viewer: Duplex): () => string {
  /** The length of each message of the viewer, and the reply. */
  const steps: [number, number[]][] = [
    [12, [1, 1]],
    [1, [0, 0, 0, 0]],
    [1, [width >> 8, width & 255, 0, height, ...pixelFormat, 0, 0, 0, name.length, ...Buffer.from(name)]],
  ]
  let received = Buffer.alloc(0)
  viewer.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    for (let [step] = steps; step !== undefined && received.length >= step[0]; [step] = steps) {
      received = received.subarray(step[0])
      viewer.write(Buffer.from(step[1]))
      steps.shift()
    }
  })
  viewer.write('RFB 003.008\n')
  return () => received.toString('hex')
}

/** The last bytes of an output, by their position in it. */
export class ConsolePast {
  readonly #bytes: Buffer
  #end = 0

  /** @param capacity in bytes */
  constructor(capacity: number) {
    this.#bytes = Buffer.alloc(capacity)
  }

  /** How many bytes were appended. */
  get end(): number {
    return this.#end
  }

  /** The position of the oldest byte that is retained. */
  get start(): number {
    return Math.max(0, this.#end - this.#bytes.length)
  }

  append(chunk: Uint8Array): void {
    const { length: capacity } = this.#bytes
    const last = chunk.subarray(Math.max(0, chunk.length - capacity))
    const at = (this.#end + chunk.length - last.length) % capacity
    const untilWrap = Math.min(last.length, capacity - at)
    this.#bytes.set(last.subarray(0, untilWrap), at)
    this.#bytes.set(last.subarray(untilWrap), 0)
    this.#end += chunk.length
  }

  /** A copy of the bytes from a position on, which must be between `start` and `end`. */
  from(position: number): Buffer {
    const at = position % this.#bytes.length
    const length = this.#end - position
    const untilWrap = Math.min(length, this.#bytes.length - at)
    return Buffer.concat([this.#bytes.subarray(at, at + untilWrap), this.#bytes.subarray(0, length - untilWrap)])
  }
}

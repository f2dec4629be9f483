/** Runs pieces of work one at a time on the event loop, with other events in between. */
export interface OneByOne<T> {
  /**
   * Resolves when it is the turn of `one`; undefined if that is now. If `one` is dropped, it never resolves.
   * @param isDropped called when the next piece is chosen
   */
  take(one: T, isDropped?: () => boolean): Promise<void> | undefined
}

export interface OneByOneOptions<T> {
  /** The order of the waiting pieces; among equals, the one that arrived first is next. */
  readonly compare: (one: T, other: T) => number
  readonly onTurn?: (one: T) => void
  /** Calls `next` after events that have arrived in the meantime. */
  readonly defer?: (next: () => void) => void
}

export function createOneByOne<T>({ compare, onTurn, defer = setImmediate }: OneByOneOptions<T>): OneByOne<T> {
  let waiting: readonly { readonly one: T; readonly isDropped: () => boolean; readonly start: () => void }[] = []
  let isBusy = false
  const occupy = (one: T): void => {
    isBusy = true
    onTurn?.(one)
    defer(next)
  }
  const next = (): void => {
    isBusy = false
    const [chosen, ...others] = waiting
      .filter(({ isDropped }) => !isDropped())
      .toSorted((left, right) => compare(left.one, right.one))
    waiting = others
    if (chosen === undefined) return
    occupy(chosen.one)
    chosen.start()
  }
  return {
    take(one, isDropped = () => false) {
      if (!isBusy) {
        occupy(one)
        return undefined
      }
      const { promise, resolve: start } = Promise.withResolvers<void>()
      waiting = [...waiting, { one, isDropped, start }]
      return promise
    },
  }
}

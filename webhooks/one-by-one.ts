/** Work that is done on the event loop one piece at a time, with other events in between. */
export interface OneByOne<T> {
  /**
   * Resolves when it is this one's turn; undefined where that is now. One that is dropped never resolves.
   * @param isDropped asked when the next one is chosen
   */
  take(one: T, isDropped?: () => boolean): Promise<void> | undefined
}

export interface OneByOneOptions<T> {
  /** The first one in this order is next; among equals the one that arrived first. */
  readonly compare: (one: T, other: T) => number
  readonly onTurn?: (one: T) => void
  /** Calls back once events that have arrived meanwhile are handled. */
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

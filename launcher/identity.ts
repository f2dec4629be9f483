/** The object that a launcher is for, as far as what it makes must be told apart from another's. */
export interface Identity {
  readonly uid: string
  readonly name: string
}

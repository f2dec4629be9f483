/** The identity of the launcher's VM, for the files and the domain that it creates. */
export interface Identity {
  readonly uid: string
  readonly name: string
}

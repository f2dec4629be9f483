/** The actions that every plan may contain; `Loop.perform` carries them out. */
export type CommonAction<Status> =
  | { readonly do: 'updateStatus'; readonly status: Status }
  | RecordEvent
  | { readonly do: 'requeueAfter'; readonly afterMs: number }

interface RecordEvent {
  readonly do: 'recordEvent'
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
}

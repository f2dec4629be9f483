import type { Metadata } from './api.ts'
import { html } from './html.ts'
import { ageText } from './table.ts'
import { useWatched } from './watched.ts'

interface KubeEvent {
  readonly metadata: Metadata
  readonly type?: string
  readonly reason?: string
  readonly message?: string
  readonly count?: number
  readonly lastTimestamp?: string | null
  readonly eventTime?: string | null
}

/** The events of an object, newest first. */
export function Events({ namespace, uid }: { readonly namespace: string; readonly uid: string }) {
  const selector = encodeURIComponent(`involvedObject.uid=${uid}`)
  const { objects, error } = useWatched<KubeEvent>(
    `/api/v1/namespaces/${encodeURIComponent(namespace)}/events?fieldSelector=${selector}`,
  )
  const at = (event: KubeEvent) => event.lastTimestamp ?? event.eventTime ?? event.metadata.creationTimestamp ?? ''
  const newest = objects.toSorted((a, b) => (at(a) < at(b) ? 1 : -1))
  return html`<section class="card" aria-labelledby="events">
    <h2 id="events">Events</h2>
    ${error !== '' && html`<p class="problem">${error}</p>`}
    ${newest.length === 0 && html`<p class="muted">None in the last hour.</p>`}
    <ul class="events">
      ${newest.map(
        (event) =>
          html`<li key=${event.metadata.uid}>
            <span class="muted">${ageText(at(event), Date.now())}</span>
            <span>
              <b class=${event.type === 'Warning' ? 'warning' : ''}>${event.reason}</b> ${event.message}
              ${(event.count ?? 1) > 1 && html`<span class="muted"> × ${event.count}</span>`}
            </span>
          </li>`,
      )}
    </ul>
  </section>`
}

import { useEffect, useState } from 'preact/hooks'
import { request } from './api.ts'
import { textOf } from './failure.ts'
import { html } from './html.ts'
import { isPlural, kinds, type Plural } from './kinds.ts'
import { List } from './list.ts'
import { useStored } from './stored.ts'
import { Vm } from './vm.ts'

/** The user's context. */
export interface Cluster {
  readonly server: string
  readonly namespace: string
  readonly isNamespaceChosen: boolean
}

type Place = { readonly list: Plural } | { readonly namespace: string; readonly name: string }

/** `#/virtualmachines`, `#/vm/NAMESPACE/NAME`. */
function placeOf(hash: string): Place {
  const [first = '', namespace, name] = hash.replace(/^#\/?/, '').split('/').map(decodeURIComponent)
  if (first === 'vm' && namespace !== undefined && name !== undefined) return { namespace, name }
  return { list: isPlural(first) ? first : 'virtualmachines' }
}

export function App() {
  const [place, setPlace] = useState(placeOf(location.hash))
  const [cluster, setCluster] = useState<Cluster>()
  const [error, setError] = useState('')
  const [theme, setTheme] = useStored('theme', '')
  useEffect(() => {
    const move = () => setPlace(placeOf(location.hash))
    addEventListener('hashchange', move)
    request('GET', '/cluster').then(
      (answer) => setCluster(answer as Cluster),
      (failure) => setError(textOf(failure)),
    )
    return () => removeEventListener('hashchange', move)
  }, [])
  useEffect(() => {
    document.documentElement.dataset['theme'] = theme
  }, [theme])
  const isDark = theme === '' ? matchMedia('(prefers-color-scheme: dark)').matches : theme === 'dark'
  const current = 'list' in place ? place.list : 'virtualmachines'
  return html`
    <a class="skip" href="#main" onClick=${focusMain}>Skip to the content</a>
    <header class="top">
      <a class="brand" href="#/virtualmachines"><img src="icon.svg" alt="" width="26" height="26" />virtset</a>
      <nav aria-label="Kinds">
        ${Object.entries(kinds).map(
          ([plural, title]) =>
            html`<a href=${`#/${plural}`} aria-current=${plural === current ? 'page' : undefined}>${title}</a>`,
        )}
      </nav>
      <span class="server" title="The API server">${cluster?.server.replace(/^https?:\/\//, '')}</span>
      <button class="quiet" onClick=${() => setTheme(isDark ? 'light' : 'dark')}>${isDark ? 'Light' : 'Dark'}</button>
    </header>
    <main id="main" tabindex="-1">
      ${error !== '' && html`<p class="problem" role="alert">${error}</p>`}
      ${
        cluster !== undefined &&
        ('list' in place
          ? html`<${List} key=${place.list} plural=${place.list} cluster=${cluster} />`
          : html`<${Vm} key=${`${place.namespace}/${place.name}`} namespace=${place.namespace} name=${place.name} />`)
      }
    </main>
  `
}

function focusMain(event: Event): void {
  event.preventDefault()
  document.getElementById('main')?.focus()
}

package queue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/pair"
	"github.com/emco-orchestrator/emco/src/emco/internal/svc/rsync/queue"
)

func TestStopWaitsForACallInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, ended := make(chan struct{}), false
		timers := queue.NewTimers(func(pair.Target) {
			<-release
			ended = true
		})
		timers.Set(pair.Target{Deployment: "1"}, time.Second)
		time.Sleep(2 * time.Second)
		stopped := make(chan struct{})
		go func() {
			timers.Stop()
			close(stopped)
		}()
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("Stop returned while a call was running")
		default:
		}
		close(release)
		<-stopped
		if !ended {
			t.Error("the call had not ended when Stop returned")
		}
	})
}

func TestAStoppedTimerDoesNotCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		timers := queue.NewTimers(func(target pair.Target) { t.Errorf("called for %v", target) })
		timers.Set(pair.Target{Deployment: "1"}, time.Second)
		timers.Stop()
		timers.Set(pair.Target{Deployment: "2"}, time.Second)
		time.Sleep(time.Minute)
	})
}

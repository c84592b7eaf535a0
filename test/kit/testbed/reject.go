// Copyright The zonelect Authors.
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

const (
	// rejecting names the priority level without seats, and its flow schemas by
	// user.
	rejecting = "zonelect-testbed-rejecting"
	// rejectedPath is requested to find out whether a user is rejected.
	rejectedPath = "/zonelect-testbed"
	// rejectPrecedence comes before all flow schemas of Kubernetes except that
	// of system:masters, which nothing can reject, and that of probes.
	rejectPrecedence = 10
	// rejectTimeout bounds how long apiservers may take to notice it.
	rejectTimeout = 30 * time.Second
)

// Reject makes every apiserver answer a user's requests with these verbs (get,
// list, watch, create, update, patch, delete; none: with any) with 429 Too Many
// Requests and a Retry-After of a second, through its own priority and fairness.
// It returns once all healthy zones do so. Every 20 s a single request may
// slip through. Watches that are open stay open.
//
// The user must not be of the group system:masters, which is exempt; a program
// can impersonate a lesser one. If the user is already rejected, these verbs
// replace the earlier ones.
func (c *Cluster) Reject(ctx context.Context, user string, verbs ...string) error {
	if err := c.reject(ctx, user, verbs); err != nil {
		return fmt.Errorf("reject the requests of %s: %w", user, err)
	}
	c.say("requests of %s are rejected %v", user, verbs)
	return nil
}

func (c *Cluster) reject(ctx context.Context, user string, verbs []string) error {
	if err := c.admit(ctx, user); err != nil {
		return err
	}
	client, err := c.livingClient()
	if err != nil {
		return err
	}
	levels, schemas := client.FlowcontrolV1().PriorityLevelConfigurations(), client.FlowcontrolV1().FlowSchemas()
	if _, err := levels.Create(ctx, rejectingLevel(), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	level, err := levels.Get(ctx, rejecting, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, schema := range []*flowcontrolv1.FlowSchema{rejectingSchema(occupant, nil), rejectingSchema(user, verbs)} {
		if _, err := schemas.Create(ctx, schema, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	if err := c.occupy(user, string(level.UID)); err != nil {
		return err
	}
	return c.awaitRejection(ctx, user, true)
}

// Admit ends Reject. It returns once the apiservers of all healthy zones have
// noticed.
func (c *Cluster) Admit(ctx context.Context, user string) error {
	if err := c.admit(ctx, user); err != nil {
		return fmt.Errorf("admit the requests of %s: %w", user, err)
	}
	c.say("requests of %s are admitted", user)
	return nil
}

func (c *Cluster) admit(ctx context.Context, user string) error {
	client, err := c.livingClient()
	if err != nil {
		return err
	}
	err = client.FlowcontrolV1().FlowSchemas().Delete(ctx, schemaName(user), metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := c.awaitRejection(ctx, user, false); err != nil {
		return err
	}
	c.vacate(user)
	return nil
}

// schemaName names the flow schema that rejects a user.
func schemaName(user string) string { return fmt.Sprintf("%s-%x", rejecting, user) }

// rejectingLevel is a priority level that has no seats. It still admits one
// request if no other is executing: see occupy.
func rejectingLevel() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: rejecting},
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32), BorrowingLimitPercent: new(int32),
				LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		},
	}
}

// rejectingSchema leads a user's requests to the level without seats.
func rejectingSchema(user string, verbs []string) *flowcontrolv1.FlowSchema {
	if len(verbs) == 0 {
		verbs = []string{flowcontrolv1.VerbAll}
	}
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: metav1.ObjectMeta{Name: schemaName(user)},
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: rejecting},
			MatchingPrecedence:         rejectPrecedence,
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: verbs, APIGroups: []string{flowcontrolv1.APIGroupAll}, Resources: []string{flowcontrolv1.ResourceAll},
					ClusterScope: true, Namespaces: []string{flowcontrolv1.NamespaceEvery},
				}},
				NonResourceRules: []flowcontrolv1.NonResourcePolicyRule{{
					Verbs: []string{flowcontrolv1.VerbAll}, NonResourceURLs: []string{rejectedPath},
				}},
			}},
		},
	}
}

// awaitRejection waits until all healthy zones reject a user, or none does.
func (c *Cluster) awaitRejection(ctx context.Context, user string, want bool) error {
	ctx, cancel := context.WithTimeout(ctx, rejectTimeout)
	defer cancel()
	for _, zone := range c.wellZones() {
		config := c.restConfig(zone)
		config.Impersonate.UserName = user
		client, err := rest.HTTPClientFor(config)
		if err != nil {
			return fmt.Errorf("make a client of zone %s: %w", zone, err)
		}
		defer client.CloseIdleConnections()
		what := fmt.Sprintf("wait until zone %s rejects %s: %v", zone, user, want)
		err = poll(ctx, what, func(ctx context.Context) error { return rejects(ctx, client, config.Host+rejectedPath, want) })
		if err != nil {
			return err
		}
	}
	return nil
}

// rejects returns nil if a URL answers with 429 exactly when want is set.
func rejects(ctx context.Context, client *http.Client, url string, want bool) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("make a request: %w", err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("ask whether it rejects: %w", err)
	}
	if err := discard(response); err != nil {
		return err
	}
	if (response.StatusCode == http.StatusTooManyRequests) != want {
		return errors.New(response.Status)
	}
	return nil
}
